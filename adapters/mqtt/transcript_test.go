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
//	set receive_maximum = 2        a setting of this transcript
//	a> connect id=a clean          client a sends; it connects with its first packet
//	a> hex c0 00                   raw bytes
//	a< connack ...                 the next packet; three points stand for the rest of the line
//	a< nothing                     no further packet
//	a< closed                      no further packet, and the connection is closed
//	a! drop                        the client's connection breaks
//	wait 2s                        of the bubble's clock
//	shutdown                       the broker stops
//	drops too_large 1              what the broker counted so far
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
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { play(t, body) })
			})
		}
	}
}

// stage is where one transcript plays.
type theatre struct {
	t       *testing.T
	cfg     Config
	broker  *core.Broker
	server  *Server
	clients map[string]*client
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
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "test", local.New(log), testPolicy, log)
	return &theatre{t: t, cfg: cfg, broker: broker, server: New(cfg, core.NewRealms(broker), log),
		clients: map[string]*client{}}
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

func play(t *testing.T, body string) {
	cfg := testConfig()
	lines := strings.Split(body, "\n")
	for _, line := range lines {
		if setting, ok := strings.CutPrefix(line, "set "); ok {
			if err := toml.Unmarshal([]byte(setting), &cfg); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	s := newTheatre(t, cfg)
	defer s.end()
	for n, line := range lines {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' || strings.HasPrefix(line, "set ") {
			continue
		}
		if problem := s.step(line); problem != "" {
			t.Fatalf("line %d: %s\n%s", n+2, line, problem)
		}
	}
}

func (s *theatre) step(line string) (problem string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.HasSuffix(verb, ">"):
		s.client(verb[:len(verb)-1]).say(rest)
	case strings.HasSuffix(verb, "<"):
		return s.client(verb[:len(verb)-1]).expect(rest)
	case strings.HasSuffix(verb, "!"):
		s.client(verb[:len(verb)-1]).conn.Close()
		synctest.Wait()
	case verb == "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err.Error()
		}
		time.Sleep(d)
	case verb == "shutdown":
		s.shutdown()
	case verb == "drops":
		return s.drops(rest)
	default:
		return "no such step"
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
	c := &client{conn: near, version: 5}
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

// say sends without waiting for the server to read: it may have closed.
func (c *client) say(line string) {
	b := encode(line, &c.version)
	go c.conn.Write(b)
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
