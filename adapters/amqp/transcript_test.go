package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// TestTranscripts plays testdata/amqp. A file holds transcripts, each of one
// requirement:
//
//	== [AMQP-1.7.2.1] title
//	set max_body = 10              a setting of this transcript
//	broker clients.queues = 1      a setting of the broker
//	user ann secret                may log in, nobody else
//	a> connect                     the whole log-in, with a channel 1; words: user=, password=,
//	                               vhost=, frame-max=, heartbeat=, channels=N, and capabilities by name
//	a> queue.declare queue=q       client a sends; see wire_test.go
//	a> hex 41 4d                   raw bytes; "header" is the protocol's
//	a> bytewise queue.declare …    each byte in a write of its own
//	a> 3x basic.publish body=#     three times; # is 1, 2, 3 (as well for a<)
//	a< queue.declare-ok queue=q    the next thing that a got; "..." stands for the rest, "*" in a
//	                               value for any, "$x" keeps the value or, later, must be it again
//	a< nothing
//	a< closed                      no more, and the connection is closed
//	a! drop                        the client's connection breaks
//	wait 2s                        of the bubble's clock
//	rules allow user:ann all; …    from now on; "rules" alone denies everything
//	alarm disk on, alarm disk off
//	shutdown                       the broker stops
//	drops unroutable 1             what the broker counted so far
//	limited queues 1               how often somebody came to a limit
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/amqp/*.txt")
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

// theatre is where one transcript plays.
type theatre struct {
	t       *testing.T
	cfg     Config
	broker  *core.Broker
	server  *Server
	clients map[string]*client
	vars    map[string]string
	disk    uint64 // free bytes
	mu      sync.Mutex
}

// client is one end of a pipe whose other end is the server's.
type client struct {
	conn net.Conn
	most int

	mu  sync.Mutex
	got []byte
	err error
}

func (c *client) read() {
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

// testPolicy refuses what is called refused.
func testPolicy(_ auth.Principal, _ auth.Action, o auth.Object) error {
	if strings.HasPrefix(o.Name, "refused") {
		return errors.New("a rule of the test")
	}
	return nil
}

func newTheatre(t *testing.T, cfg Config) *theatre {
	return newTheatreWith(t, cfg, core.DefaultConfig())
}

func newTheatreWith(t *testing.T, cfg Config, set core.Config) *theatre {
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	set.MemoryMark = 0
	broker := core.NewBroker(set, "/", local.New(log), testPolicy, log)
	s := &theatre{t: t, cfg: cfg, broker: broker, server: New(cfg, core.NewRealms(broker), log),
		clients: map[string]*client{}, vars: map[string]string{}, disk: 1 << 40}
	broker.Probe(core.Probes{DiskFree: func() (uint64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.disk, nil
	}})
	return s
}

// end closes everything and looks for what is left behind.
func (s *theatre) end() {
	for _, c := range s.clients {
		c.conn.Close()
	}
	synctest.Wait()
	if err := s.server.Shutdown(context.Background()); err != nil {
		s.t.Error(err)
	}
	if st := s.broker.Stats(); st.Engine.Consumers > 0 || st.Engine.Unsettled > 0 || st.Protocols[protocol].Connections > 0 {
		s.t.Errorf("left behind: %+v", st.Engine)
	}
	s.broker.Close()
}

// duration is how settings are written in a file.
var duration = regexp.MustCompile(`"[0-9]+(ms|s|m|h)"`)

func durations(setting string) string {
	return duration.ReplaceAllStringFunc(setting, func(d string) string {
		n, _ := time.ParseDuration(strings.Trim(d, `"`))
		return fmt.Sprint(int64(n))
	})
}

func play(t *testing.T, body string) {
	cfg, set := DefaultConfig(), core.DefaultConfig()
	lines := strings.Split(body, "\n")
	for _, line := range lines {
		if setting, ok := strings.CutPrefix(line, "set "); ok {
			if err := toml.Unmarshal([]byte(durations(setting)), &cfg); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if setting, ok := strings.CutPrefix(line, "broker "); ok {
			if err := toml.Unmarshal([]byte(durations(setting)), &set); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	s := newTheatreWith(t, cfg, set)
	defer s.end()
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "set ") || strings.HasPrefix(line, "broker ") || strings.HasPrefix(line, "#") {
			continue
		}
		if err := s.line(line); err != nil {
			t.Fatalf("line %d: %s: %v", i+2, line, err)
		}
	}
	for name, c := range s.clients {
		if got, _ := c.next(); got != "" && c.err == nil {
			t.Errorf("%s also got %s", name, got)
		}
	}
}

func (s *theatre) line(line string) error {
	head, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.HasSuffix(head, ">"):
		return s.sends(s.client(head[:len(head)-1]), rest)
	case strings.HasSuffix(head, "<"):
		return s.gets(s.client(head[:len(head)-1]), rest)
	case strings.HasSuffix(head, "!"):
		s.client(head[:len(head)-1]).conn.Close()
	case head == "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		time.Sleep(d)
	case head == "user":
		return s.welcome(rest)
	case head == "rules":
		rules, err := auth.ParseRules([]byte(strings.ReplaceAll(rest, "; ", "\n")))
		if err != nil {
			return err
		}
		s.broker.SetPolicy(rules.Decide)
	case head == "alarm":
		s.mu.Lock()
		s.disk = 1 << 40
		if strings.HasSuffix(rest, " on") {
			s.disk = 1 << 20
		}
		s.mu.Unlock()
		time.Sleep(time.Second)
	case head == "shutdown":
		return s.server.Shutdown(context.Background())
	case head == "drops":
		return s.drops(rest)
	case head == "limited":
		name, count, _ := strings.Cut(rest, " ")
		if n := s.broker.Limited()[name]; strconv.FormatUint(n, 10) != count {
			return fmt.Errorf("%d", n)
		}
	default:
		return errors.New("not understood")
	}
	synctest.Wait()
	return nil
}

func (s *theatre) drops(rest string) error {
	reason, count, _ := strings.Cut(rest, " ")
	want, _ := strconv.ParseUint(count, 10, 64)
	if got := s.broker.Stats().Protocols[protocol].Dropped[reason]; got != want {
		return fmt.Errorf("%d", got)
	}
	return nil
}

// welcome makes users known.
func (s *theatre) welcome(rest string) error {
	name, password, _ := strings.Cut(rest, " ")
	path := filepath.Join(s.t.TempDir(), "users")
	if _, err := auth.ChangeUser(path, name, auth.Change{Password: password}); err != nil {
		return err
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		return err
	}
	s.broker.SetDoor(auth.NewDoor(users))
	return nil
}

func (s *theatre) client(name string) *client {
	c := s.clients[name]
	if c == nil {
		near, far := net.Pipe()
		c = &client{conn: near, most: frame.MinMax}
		s.clients[name] = c
		s.server.ServeConn(far)
		go c.read()
	}
	return c
}

func (c *client) write(b []byte, bytewise bool) {
	step := len(b)
	if bytewise {
		step = 1
	}
	for len(b) > 0 {
		n := min(step, len(b))
		// A connection that ended shows in what comes next.
		_, _ = c.conn.Write(b[:n])
		b = b[n:]
		if bytewise {
			synctest.Wait()
		}
	}
	synctest.Wait()
}

var times = regexp.MustCompile(`^(\d+)x (.*)$`)

// repeated are the lines that "3x line" stands for.
func repeated(line string) []string {
	m := times.FindStringSubmatch(line)
	if m == nil {
		return []string{line}
	}
	n, _ := strconv.Atoi(m[1])
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(m[2], "#", strconv.Itoa(i+1)))
	}
	return list
}

func (s *theatre) sends(c *client, line string) error {
	if rest, ok := strings.CutPrefix(line+" ", "connect "); ok {
		return s.connect(c, words(rest))
	}
	line, bytewise := strings.CutPrefix(line, "bytewise ")
	if raw, ok := strings.CutPrefix(line, "hex "); ok {
		c.write(rawBytes(raw), bytewise)
		return nil
	}
	if line == "header" {
		c.write([]byte(frame.ProtocolHeader), bytewise)
		return nil
	}
	if line == "heartbeat" {
		c.write(frame.AppendHeartbeat(nil), bytewise)
		return nil
	}
	var all []byte
	for _, l := range repeated(line) {
		for name, v := range s.vars {
			l = strings.ReplaceAll(l, "$"+name, v)
		}
		m, err := parseMessage(l)
		if err != nil {
			return err
		}
		all = append(all, m.encode(c.most)...)
	}
	c.write(all, bytewise)
	return nil
}

// connect does the whole log-in and opens channel 1.
func (s *theatre) connect(c *client, list []string) error {
	set := map[string]string{"user": "guest", "password": "guest", "vhost": "/", "frame-max": "4096", "heartbeat": "0", "channels": "1"}
	var can []string
	for _, w := range list {
		if name, value, ok := strings.Cut(w, "="); ok {
			set[name] = value
		} else {
			can = append(can, w+":true")
		}
	}
	most, _ := strconv.Atoi(set["frame-max"])
	c.most = most
	secret := "\x00" + set["user"] + "\x00" + set["password"]
	steps := []string{
		"> header", "< connection.start ...",
		fmt.Sprintf("> connection.start-ok client-properties={capabilities:{%s} connection_name:%s} mechanism=PLAIN response=%q locale=en_US",
			strings.Join(can, " "), "test", secret),
		"< connection.tune ...",
		"> connection.tune-ok channel-max=2047 frame-max=" + set["frame-max"] + " heartbeat=" + set["heartbeat"],
		"> connection.open virtual-host=" + set["vhost"], "< connection.open-ok",
	}
	n, _ := strconv.Atoi(set["channels"])
	for i := range n {
		steps = append(steps, fmt.Sprintf("> channel.open ch=%d", i+1), "< channel.open-ok ...")
	}
	for _, step := range steps {
		var err error
		if line, ok := strings.CutPrefix(step, "> "); ok {
			err = s.sends(c, line)
		} else {
			err = s.gets(c, step[2:])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

// next takes the next thing off what a client got.
func (c *client) next() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, n, err := received(c.got)
	c.got = c.got[n:]
	return line, err
}

func (s *theatre) gets(c *client, want string) error {
	synctest.Wait()
	switch want {
	case "nothing", "closed":
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.got) > 0 {
			line, _, _ := received(c.got)
			return fmt.Errorf("got %q (%q)", line, c.got)
		}
		if (c.err != nil) != (want == "closed") {
			return fmt.Errorf("connection: %v", c.err)
		}
		return nil
	case "header":
		c.mu.Lock()
		defer c.mu.Unlock()
		if string(c.got) != frame.ProtocolHeader {
			return fmt.Errorf("got %q", c.got)
		}
		c.got = nil
		return nil
	}
	for _, w := range repeated(want) {
		got, err := c.next()
		if err != nil {
			return err
		}
		if !s.fits(w, got) {
			return fmt.Errorf("got %s", got)
		}
	}
	return nil
}

// fits compares word by word.
func (s *theatre) fits(want, got string) bool {
	w, g := words(want), words(got)
	if n := len(w); n > 0 && w[n-1] == "..." {
		w = w[:n-1]
		g = g[:min(len(g), len(w))]
	}
	if len(w) != len(g) {
		return false
	}
	for i := range w {
		name, value, _ := strings.Cut(w[i], "=")
		gotName, gotValue, _ := strings.Cut(g[i], "=")
		switch {
		case name != gotName:
			return false
		case value == "*" || value == gotValue:
		case strings.HasPrefix(value, "$"):
			if old, ok := s.vars[value[1:]]; ok && old != gotValue {
				return false
			}
			s.vars[value[1:]] = gotValue
		default:
			return false
		}
	}
	return true
}
