package mqtt

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// TestTranscripts plays testdata/mqtt. A file holds transcripts, each of one
// requirement:
//
//	== [MQTT-3.1.0-1] title
//	versions 4 5                   played once for each of these versions (else 5)
//	set receive_maximum = 2        a setting of this transcript
//	a> connect id=a clean          client a sends; it connects with its first packet
//	a> hex c0 00                   raw bytes
//	a< connack ...                 the next packet; three points stand for the rest of the line
//	a< nothing                     no further packet
//	a< closed                      no further packet, and the connection is closed
//	a> bytewise connect id=a       each byte in a write of its own
//	a> 3x publish topic=t id=#     three times; # is 1, 2, 3 (as well for a<)
//	a! drop                        the client's connection breaks
//	wait 2s                        of the bubble's clock
//	shutdown                       the broker stops
//	sys                            the broker's figures begin to be published
//	drops too_large 1              what the broker counted so far
//	told 0x97 1                    what clients were told so far
//
// The words of a packet are in wire_test.go.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/mqtt/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split("\n"+string(text), "\n== ")[1:] {
			title, body, _ := strings.Cut(part, "\n")
			name := strings.TrimSuffix(filepath.Base(file), ".txt") + "/" + title
			for _, version := range versions(body) {
				t.Run(name+" v"+strconv.Itoa(version), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { play(t, body, version) })
				})
			}
		}
	}
}

func versions(body string) (list []int) {
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, "versions "); ok {
			for _, v := range strings.Fields(rest) {
				n, _ := strconv.Atoi(v)
				list = append(list, n)
			}
			return list
		}
	}
	return []int{5}
}

// stage is where one transcript plays.
type theatre struct {
	t       *testing.T
	cfg     Config
	broker  *core.Broker
	server  *Server
	clients map[string]*client
	version int // of clients that do not say
	stopped bool
}

// client is one end of a pipe whose other end is the server's.
type client struct {
	conn    net.Conn
	version int

	mu  sync.Mutex
	got []byte
	err error
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.SysInterval = 0
	return cfg
}

// refuseNothing but topics under "refused".
func testPolicy(_ auth.Principal, a auth.Action, o auth.Object) error {
	if strings.HasPrefix(o.Name, "refused") {
		return errors.New("a rule of the test")
	}
	return nil
}

func newTheatre(t *testing.T, cfg Config) *theatre {
	return newTheatreWith(t, cfg, core.DefaultConfig())
}

func newTheatreWith(t *testing.T, cfg Config, set core.Config) *theatre {
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(set, "test", local.New(log), testPolicy, log)
	return &theatre{t: t, cfg: cfg, broker: broker, server: New(cfg, core.NewRealms(broker), log),
		clients: map[string]*client{}, version: 5}
}

func (s *theatre) end() {
	for _, c := range s.clients {
		c.conn.Close()
	}
	s.shutdown()
	s.broker.Close()
}

func (s *theatre) shutdown() {
	if s.stopped {
		return
	}
	s.stopped = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.t.Error(err)
	}
}

func play(t *testing.T, body string, version int) {
	cfg, set := testConfig(), core.DefaultConfig()
	lines := strings.Split(body, "\n")
	for _, line := range lines {
		if setting, ok := strings.CutPrefix(line, "set "); ok {
			if err := toml.Unmarshal([]byte(durations(setting)), &cfg); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if setting, ok := strings.CutPrefix(line, "broker "); ok {
			if err := toml.Unmarshal([]byte(setting), &set); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	s := newTheatreWith(t, cfg, set)
	s.version = version
	defer s.end()
	for n, line := range lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' ||
			strings.HasPrefix(line, "set ") || strings.HasPrefix(line, "broker ") || strings.HasPrefix(line, "versions ") {
			continue
		}
		if problem := s.step(line); problem != "" {
			t.Fatalf("line %d: %s\n%s", n+2, line, problem)
		}
	}
}

// durations writes "60s" as the number that TOML knows.
func durations(setting string) string {
	key, value, _ := strings.Cut(setting, "=")
	if d, err := time.ParseDuration(strings.Trim(value, ` "`)); err == nil {
		return key + "= " + strconv.FormatInt(int64(d), 10)
	}
	return setting
}

func (s *theatre) step(line string) (problem string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.HasSuffix(verb, ">"):
		c := s.client(verb[:len(verb)-1])
		repeat(rest, func(line string) string { c.say(line); return "" })
	case strings.HasSuffix(verb, "<"):
		return repeat(rest, s.client(verb[:len(verb)-1]).expect)
	case strings.HasSuffix(verb, "!"):
		s.client(verb[:len(verb)-1]).conn.Close()
		synctest.Wait()
	case verb == "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err.Error()
		}
		time.Sleep(d)
	case verb == "limited":
		name, count, _ := strings.Cut(rest, " ")
		if n := s.broker.Limited()[name]; strconv.FormatUint(n, 10) != count {
			return "it was " + strconv.FormatUint(n, 10)
		}
	case verb == "shutdown":
		s.shutdown()
	case verb == "sys":
		s.server.sys.start()
	case verb == "told":
		return s.told(rest)
	case verb == "drops":
		return s.drops(rest)
	default:
		return "no such step"
	}
	return ""
}

func (s *theatre) told(rest string) string {
	synctest.Wait()
	code, want, _ := strings.Cut(rest, " ")
	if got := s.server.Told()[code]; strconv.FormatUint(got, 10) != want {
		return "counted " + strconv.FormatUint(got, 10)
	}
	return ""
}

func (s *theatre) drops(rest string) string {
	synctest.Wait()
	reason, want, _ := strings.Cut(rest, " ")
	got := s.broker.Stats().Protocols[protocolName].Dropped[reason]
	if strconv.FormatUint(got, 10) != want {
		return "counted " + strconv.FormatUint(got, 10)
	}
	return ""
}

// client returns the client of a name; a closed one is replaced when it sends
// again.
func (s *theatre) client(name string) *client {
	c := s.clients[name]
	if c != nil {
		return c
	}
	c = s.dial()
	s.clients[name] = c
	return c
}

func (s *theatre) dial() *client {
	near, far := net.Pipe()
	c := &client{conn: near, version: s.version}
	go c.listen()
	s.server.ServeConn(far)
	return c
}

func (c *client) listen() {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.conn.Read(buf)
		c.mu.Lock()
		c.got = append(c.got, buf[:n]...)
		c.err = err
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// repeat acts on "3x line" three times.
func repeat(line string, act func(string) string) string {
	word, rest, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(strings.TrimSuffix(word, "x"))
	if err != nil || word[len(word)-1] != 'x' {
		return act(line)
	}
	for i := range n {
		if problem := act(strings.ReplaceAll(rest, "#", strconv.Itoa(i+1))); problem != "" {
			return problem
		}
	}
	return ""
}

// say sends without waiting for the server to read: it may have closed.
func (c *client) say(line string) {
	rest, bytewise := strings.CutPrefix(line, "bytewise ")
	b := encode(rest, &c.version)
	go func() {
		for bytewise && len(b) > 1 {
			c.conn.Write(b[:1])
			b = b[1:]
		}
		c.conn.Write(b)
	}()
	synctest.Wait()
}

// expect compares the next packet with a line.
func (c *client) expect(want string) string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got, size := decode(c.got, c.version)
	if size == 0 {
		got = "nothing"
		if c.err != nil {
			got = "closed"
		}
	}
	if want == "nothing" && got == "closed" || !same(got, want) {
		return "got: " + got
	}
	c.got = c.got[size:]
	return ""
}

// same compares word by word.
func same(got, want string) bool {
	g, w := words(got), words(want)
	if n := len(w); n > 0 && w[n-1] == "..." {
		w = w[:n-1]
		g = g[:min(len(g), n-1)]
	}
	return strings.Join(g, "\x00") == strings.Join(w, "\x00")
}
