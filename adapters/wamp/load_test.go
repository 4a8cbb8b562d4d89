package wamp

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

// stage is a transcript without a file.
func stage(t *testing.T, cfg Config) *transcript {
	e, _ := encodingOf("wamp.2.json")
	s := &transcript{t: t, e: e, clients: map[string]*pipeClient{}, vars: map[string]any{}}
	s.start(cfg, core.DefaultConfig())
	return s
}

// must carries out steps.
func (s *transcript) must(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		if err := s.step(line); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
	}
}

// deafen makes a client read no more, as one whose network is cut.
func (s *transcript) deafen(name string) {
	if err := s.clients[name].conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

// got counts what a client got, by the beginning of its text, and forgets it.
func (s *transcript) got(name, prefix string) int {
	synctest.Wait()
	c := s.clients[name]
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, m := range c.msgs {
		if strings.HasPrefix(fmt.Sprint(m), prefix) {
			n++
		}
	}
	c.msgs = nil
	return n
}

// fault 78: a callee that is cut off without a word. Its
// calls fail within the deadline, idempotent ones are made again, none vanish; and
// a worker's message goes to the next.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, DefaultConfig())
		defer s.end()
		s.must("gone joins", "next joins", "caller joins",
			`gone > [64,1,{"invoke":"first"},"once"]`, `gone > [64,2,{"invoke":"first","x_idempotent":true},"again"]`,
			`next > [64,2,{"invoke":"first","x_idempotent":true},"again"]`,
			`gone > [64,3,{"x_prefetch":100},"$queue.work"]`, `next > [64,3,{"x_prefetch":100},"$queue.work"]`,
			"gone forgets", "next forgets")
		const calls = 1000
		s.deafen("gone")
		for i := range calls {
			name := [...]string{"once", "again"}[i%2]
			s.must(fmt.Sprintf(`caller > [48,%d,{},"%s",["%s"]]`, i+1, name, strings.Repeat("x", 64)))
		}
		for i := range 20 {
			s.must(fmt.Sprintf(`caller > [16,%d,{},"$queue.work",[%d]]`, calls+i+1, i))
		}
		if n := s.got("next", "[68 "); n != 10 {
			t.Errorf("the next has %d of 20 messages at once", n)
		}
		for range 4 { // the others are heard of
			s.must("wait 1m", "next frame 8a", "caller frame 8a")
		}
		if n := s.got("caller", "[8 48 "); n != calls/2 {
			t.Errorf("%d calls failed, want %d", n, calls/2)
		}
		if n := s.got("next", "[68 "); n != calls/2+10 {
			t.Errorf("the next has %d invocations, want %d calls and 10 messages", n, calls/2)
		}
		for i := range calls/2 + 20 {
			s.must(fmt.Sprintf(`next > [70,%d,{},["done"]]`, i+1))
		}
		if n := s.got("caller", "[50 "); n != calls/2 {
			t.Errorf("%d calls were answered, want %d", n, calls/2)
		}
	})
}

// A client that does not read costs a bounded amount, and others do not notice.
// It shows fault 85.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.QueueLength, cfg.QueueBytes, cfg.Limits.OutboxBytes = 1000, 1<<20, 64<<10
		s := stage(t, cfg)
		defer s.end()
		s.must("slow joins", "quick joins", "p joins", `slow > [32,1,{},"t"]`, `quick > [32,1,{},"t"]`,
			`slow > [64,2,{},"slow.proc"]`, "slow forgets", "quick forgets")
		s.deafen("slow")
		event := fmt.Sprintf(`p > [16,1,{},"t",["%s"]]`, strings.Repeat("x", 4000))
		for range 3000 {
			s.must(event)
		}
		if n := s.got("quick", "[36 "); n != 3000 {
			t.Errorf("the quick one got %d of 3000", n)
		}
		st := s.broker.Stats()
		if st.Engine.Bytes > cfg.QueueBytes+8000 || st.Protocols[protocol].Dropped[core.DropOverflow.String()] < 2000 {
			t.Errorf("%d bytes wait, %v dropped", st.Engine.Bytes, st.Protocols[protocol].Dropped)
		}
		// Calls to it are refused at once.
		s.must(`p > [48,2,{},"slow.proc"]`, `p < [8,48,2,{},"wamp.error.unavailable",["*"]]`)
	})
}

// A caller that does not read its results is ended.
// It shows fault 85.
func TestUnreadResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, DefaultConfig())
		defer s.end()
		s.must("callee joins", "caller joins", `callee > [64,1,{},"p"]`, `caller > [48,1,{"receive_progress":true},"p"]`, "callee forgets")
		s.deafen("caller")
		result := fmt.Sprintf(`callee > [70,1,{"progress":true},["%s"]]`, strings.Repeat("x", 60_000))
		for range 100 {
			s.must(result)
		}
		if n := s.got("callee", "[69 "); n != 1 {
			t.Errorf("the callee was interrupted %d times", n)
		}
		if n := s.broker.Stats().Protocols[protocol].Connections; n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// fault 67: a storm of pings, and a message in tiny parts.
func TestFrameFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage(t, DefaultConfig())
		defer s.end()
		s.must("a joins", "b joins")
		flood := func(name string, frame []byte) {
			for range 60_000 {
				if _, err := s.clients[name].conn.Write(frame); err != nil {
					return
				}
			}
			t.Errorf("%s may go on for ever", name)
		}
		flood("a", clientFrame(0x89, nil))
		s.must("a forgets", "a < closed 1008")
		flood("b", clientFrame(0x01, nil))
		// Pings of an ordinary client are no storm, for however long.
		s.must("c joins")
		for range 25_000 {
			time.Sleep(time.Second)
			s.must("c frame 89", "c forgets")
		}
		s.must("c < nothing")
	})
}

// Limits of what a session may have open.
// It shows fault 8.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MaxSubscriptions, cfg.MaxRegistrations, cfg.MaxCalls, cfg.MaxTestaments = 1, 1, 1, 1
		cfg.MaxMessage = 2000
		s := stage(t, cfg)
		defer s.end()
		s.must("a joins",
			`a > [32,1,{},"t1"]`, `a < [33,1,"*"]`, `a > [32,2,{},"t2"]`, `a < [8,32,2,{},"wamp.error.too_many_requests",["*"]]`,
			`a > [32,3,{},"$queue.q"]`, `a < [8,32,3,{},"wamp.error.too_many_requests",["*"]]`,
			`a > [64,4,{},"p1"]`, `a < [65,4,"*"]`, `a > [64,5,{},"p2"]`, `a < [8,64,5,{},"wamp.error.too_many_requests",["*"]]`,
			`a > [48,6,{},"p1"]`, `a < [68,1,"*",{},[]]`, `a > [48,7,{},"p1"]`, `a < [8,48,7,{},"wamp.error.too_many_requests",["*"]]`,
			`a > [48,8,{},"wamp.session.add_testament",["t1",[],{}]]`, `a < [50,8,{},[]]`,
			`a > [48,9,{},"wamp.session.add_testament",["t1",[],{}]]`, `a < [8,48,9,{},"wamp.error.too_many_requests",["*"]]`,
			`b joins`, `b bytes 81 fe 0b b8 01 02 03 04`, `b < closed 1009`)
		// A realm that has a name of its own.
		if s.server.realm("/") == nil || s.server.realm("other") != nil {
			t.Error("realms")
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	for _, name := range Names()[:3] {
		b.Run(name, func(b *testing.B) {
			e, _ := encodingOf(name)
			cfg := DefaultConfig()
			c := &conn{encoding: e, cfg: &cfg}
			p, err := parsePattern("com.t", "")
			if err != nil {
				b.Fatal(err)
			}
			s := newSubscription(7, p)
			m := carry(rawArguments(e.code, list{strings.Repeat("x", 64)}, nil), nil)
			m.id = randomID()
			var buf []byte
			for b.Loop() {
				buf = c.appendEvent(buf[:0], s, core.Delivery{Message: &m.Message})
			}
		})
	}
}

func BenchmarkParsePublish(b *testing.B) {
	for _, name := range Names()[:3] {
		b.Run(name, func(b *testing.B) {
			e, _ := encodingOf(name)
			raw := e.encode(nil, list{int64(16), int64(1000), dict{}, "com.topic", list{strings.Repeat("x", 64)}})
			var m message
			for b.Loop() {
				if err := e.parse(raw, &m); err != nil {
					b.Fatal(err)
				}
				a, _ := e.payload(&m, 4)
				carry(a, nil)
			}
		})
	}
}
