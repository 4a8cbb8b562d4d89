package stomp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"

	"entrepot/core"
	"entrepot/core/local"
)

// A transcript is a file of steps. A line that begins with "--- " begins a step:
//
//	--- title
//	--- config max_body = 10
//	--- a sends            the lines that follow, ^@ is NUL, ^M is CR, ^x41 any byte;
//	                       the last line end is not sent
//	--- a gets             the frame that follows: the headers written, in any order,
//	                       and no others, unless one line is "..."; a value "*" is
//	                       any, "$name" keeps it or, later, must be it again
//	--- a gets nothing
//	--- a is closed        and nothing was left unread
//	--- wait 2s            of the bubble's clock
//	--- publish a/b text   by the broker itself, as AtLeastOnce
//
// Clients connect at their first step.
type transcript struct {
	t       *testing.T
	server  *Server
	broker  *core.Broker
	clients map[string]*pipeClient
	vars    map[string]string
	cfg     Config
}

type pipeClient struct {
	conn net.Conn
	mu   sync.Mutex
	got  []byte
	eof  bool
}

func (c *pipeClient) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.conn.Read(buf)
		c.mu.Lock()
		c.got = append(c.got, buf[:n]...)
		c.eof = err != nil
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/stomp/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(titleOf(file, string(text)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTranscript(t, string(text)) })
		})
	}
}

// titleOf is the file's name and its first line, which names the clause.
func titleOf(file, text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(filepath.Base(file), ".txt") + " " + strings.TrimPrefix(first, "--- ")
}

func runTranscript(t *testing.T, text string) {
	tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
	for i, step := range strings.Split("\n"+text, "\n--- ")[1:] {
		head, body, _ := strings.Cut(step, "\n")
		if i == 0 {
			continue
		}
		if !tr.step(strings.TrimSpace(head), body) {
			t.Fatalf("step %d %q: not understood", i, head)
		}
		if t.Failed() {
			t.Fatalf("failed in step %d %q", i, head)
		}
	}
	tr.end()
}

func (tr *transcript) start() {
	log := slog.New(slog.DiscardHandler)
	tr.broker = core.NewBroker(core.DefaultConfig(), "default", local.New(log), nil, log)
	if err := tr.cfg.Validate(); err != nil {
		tr.t.Fatal(err)
	}
	tr.server = New(tr.cfg, core.NewRealms(tr.broker), log)
}

// end closes everything and looks for what is left behind.
func (tr *transcript) end() {
	if tr.server == nil {
		tr.start()
	}
	for _, c := range tr.clients {
		c.conn.Close()
	}
	if err := tr.server.Shutdown(context.Background()); err != nil {
		tr.t.Error(err)
	}
	tr.broker.Close()
	if s := tr.broker.Stats(); s.Engine.Consumers > 0 || s.Engine.Unsettled > 0 || s.Protocols[protocol].Connections > 0 {
		tr.t.Errorf("left behind: %+v", s.Engine)
	}
}

func (tr *transcript) step(head, body string) bool {
	words := strings.Fields(head)
	switch {
	case words[0] == "config":
		if err := toml.Unmarshal([]byte(strings.TrimPrefix(head, "config ")), &tr.cfg); err != nil {
			tr.t.Fatal(err)
		}
		return true
	case words[0] == "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			tr.t.Fatal(err)
		}
		time.Sleep(d)
		return true
	}
	if tr.server == nil {
		tr.start()
	}
	if words[0] == "publish" {
		tr.publish(words[1], strings.Join(words[2:], " "))
		return true
	}
	c := tr.client(words[0])
	switch strings.Join(words[1:], " ") {
	case "sends":
		tr.send(c, body)
	case "gets":
		tr.expect(c, body)
	case "gets nothing":
		tr.expectNothing(c)
	case "gets a heart-beat":
		tr.expectBeat(c)
	case "is closed":
		tr.expectNothing(c)
		if !c.eof {
			tr.t.Error("the connection is open")
		}
	case "leaves":
		c.conn.Close()
		synctest.Wait()
	default:
		return false
	}
	return true
}

func (tr *transcript) client(name string) *pipeClient {
	c := tr.clients[name]
	if c == nil {
		near, far := net.Pipe()
		c = &pipeClient{conn: near}
		tr.clients[name] = c
		tr.server.ServeConn(far)
		go c.read()
	}
	return c
}

var byteEscape = regexp.MustCompile(`\^(@|M|x[0-9A-F]{2})`)

// wire turns the readable text into bytes.
func (tr *transcript) wire(body string) []byte {
	body = strings.TrimSuffix(body, "\n")
	for name, value := range tr.vars {
		body = strings.ReplaceAll(body, "$"+name, value)
	}
	return byteEscape.ReplaceAllFunc([]byte(body), func(e []byte) []byte {
		switch e[1] {
		case '@':
			return []byte{0}
		case 'M':
			return []byte{'\r'}
		}
		var n byte
		fmt.Sscanf(string(e[2:]), "%X", &n)
		return []byte{n}
	})
}

func (tr *transcript) send(c *pipeClient, body string) {
	if _, err := c.conn.Write(tr.wire(body)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		tr.t.Error(err)
	}
	synctest.Wait()
}

func (tr *transcript) publish(topic, text string) {
	m := core.NewMessage(len(text))
	copy(m.Payload, text)
	to, err := tr.server.names.topic(topic)
	if err != nil {
		tr.t.Fatal(err)
	}
	m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, to, core.AtLeastOnce
	tr.broker.PublishOwn(m)
	synctest.Wait()
}

func (tr *transcript) expectNothing(c *pipeClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) > 0 {
		tr.t.Errorf("unexpected: %q", c.got)
	}
}

func (tr *transcript) expectBeat(c *pipeClient) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if string(c.got) != "\n" {
		tr.t.Errorf("got %q, not one heart-beat", c.got)
	}
	c.got = nil
}

// expect takes the next frame off and compares it.
func (tr *transcript) expect(c *pipeClient, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want, got := readFrame(tr.wire(body)), readFrame(c.got)
	if want == nil {
		tr.t.Fatalf("the transcript's frame has no end: %q", body)
	}
	if got == nil {
		tr.t.Fatalf("no frame, but %q", c.got)
	}
	c.got = c.got[got.size:]
	if got.command != want.command || got.body != want.body {
		tr.t.Errorf("got %s %q, not %s %q", got.command, got.body, want.command, want.body)
	}
	more := false
	for _, line := range want.headers {
		if line == "..." {
			more = true
		} else if !tr.find(got, line) {
			tr.t.Errorf("no header %q", line)
		}
	}
	if len(got.headers) > 0 && !more {
		tr.t.Errorf("headers nobody asked for: %q", got.headers)
	}
	if tr.t.Failed() {
		tr.t.Logf("frame: %q", got.raw)
	}
}

// find takes a header off the frame.
func (tr *transcript) find(f *wireFrame, line string) bool {
	name, value, _ := strings.Cut(line, ":")
	for i, h := range f.headers {
		n, v, _ := strings.Cut(h, ":")
		switch {
		case n != name:
			continue
		case value == "*" || v == value:
		case strings.HasPrefix(value, "$"):
			tr.vars[value[1:]] = v
		default:
			continue
		}
		f.headers = append(f.headers[:i:i], f.headers[i+1:]...)
		return true
	}
	return false
}

type wireFrame struct {
	command string
	headers []string
	body    string
	raw     []byte
	size    int
}

// readFrame is a plain reader of frames, not the one that is tested. nil: no whole frame.
func readFrame(b []byte) *wireFrame {
	start := len(b) - len(bytes.TrimLeft(b, "\r\n"))
	head, rest, ok := bytes.Cut(b[start:], []byte("\n\n"))
	if !ok {
		return nil
	}
	lines := strings.Split(string(head), "\n")
	f := &wireFrame{command: lines[0], headers: lines[1:]}
	n := bytes.IndexByte(rest, 0)
	for _, l := range f.headers {
		if l, ok := strings.CutPrefix(l, "content-length:"); ok && l != "*" {
			fmt.Sscanf(l, "%d", &n)
		}
	}
	if n < 0 || n >= len(rest) || rest[n] != 0 {
		return nil
	}
	f.body = string(rest[:n])
	f.size = len(b) - len(rest) + n + 1
	f.raw = b[:f.size]
	return f
}
