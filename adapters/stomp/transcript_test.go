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
	"entrepot/core/auth"
	"entrepot/core/local"
)

// A transcript is a file of steps. A line that begins with "--- " begins a step:
//
//	--- title
//	--- config max_body = 10
//	--- broker clients.queues = 1  a setting of the broker
//	--- limited queues 1   how often somebody came to a limit
//	--- user ann secret    may log in, nobody else
//	--- a sends            the lines that follow, ^@ is NUL, ^M is CR, ^x41 any byte;
//	                       the line end before the next step is not sent
//	--- a gets             the frame that follows: the headers written, in any order,
//	                       and no others, unless one line is "..."; a value "*" is
//	                       any, "$name" keeps it or, later, must be it again
//	--- a gets, any order  the same, but other frames may come before it
//	--- a gets receipt r   a RECEIPT with that id and nothing else
//	--- a gets error TEXT  an ERROR with that message, and the end of the connection
//	--- a gets nothing
//	--- a is closed        and nothing was left unread
//	--- a connects 1.2     CONNECT with that accept-version, and its CONNECTED
//	--- wait 2s            of the bubble's clock
//	--- rules allow …; …   of who may do what, from now on
//	--- the broker stops
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
	set     core.Config // the broker's
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
	tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig(), set: core.DefaultConfig()}
	defer tr.end()
	for i, step := range strings.Split("\n"+strings.TrimSuffix(text, "\n"), "\n--- ")[1:] {
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
}

func (tr *transcript) start() {
	log := slog.New(slog.DiscardHandler)
	tr.broker = core.NewBroker(tr.set, "default", local.New(log), nil, log)
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
		tr.configure(strings.TrimPrefix(head, "config "), &tr.cfg)
		return true
	case words[0] == "broker":
		tr.configure(strings.TrimPrefix(head, "broker "), &tr.set)
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
	if head == "the broker stops" {
		if err := tr.server.Shutdown(context.Background()); err != nil {
			tr.t.Error(err)
		}
		synctest.Wait()
		return true
	}
	if words[0] == "limited" {
		if n := tr.broker.Limited()[words[1]]; fmt.Sprint(n) != words[2] {
			tr.t.Errorf("%s: %d", head, n)
		}
		return true
	}
	if words[0] == "user" {
		tr.welcome(words[1], words[2])
		return true
	}
	if words[0] == "rules" {
		rules, err := auth.ParseRules([]byte(strings.ReplaceAll(strings.TrimPrefix(head, "rules"), "; ", "\n")))
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.broker.SetPolicy(rules.Decide)
		synctest.Wait()
		return true
	}
	if words[0] == "publish" {
		tr.publish(words[1], strings.Join(words[2:], " "))
		return true
	}
	c := tr.client(words[0])
	act := strings.Join(words[1:], " ")
	if v, ok := strings.CutPrefix(act, "connects "); ok {
		tr.send(c, "CONNECT\naccept-version:"+v+"\nhost:default\n\n^@")
		tr.expect(c, "CONNECTED\nversion:"+v+"\n...\n\n^@")
		return true
	}
	if id, ok := strings.CutPrefix(act, "gets receipt "); ok {
		tr.expect(c, "RECEIPT\nreceipt-id:"+id+"\n\n^@")
		return true
	}
	if message, ok := strings.CutPrefix(act, "gets error "); ok {
		tr.expectError(c, message)
		return true
	}
	switch act {
	case "sends":
		tr.send(c, body)
	case "gets":
		tr.expect(c, body)
	case "gets, any order":
		tr.expectAny(c, body)
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

func (tr *transcript) configure(setting string, of any) {
	setting = duration.ReplaceAllStringFunc(setting, func(d string) string {
		n, _ := time.ParseDuration(strings.Trim(d, `"`))
		return fmt.Sprint(int64(n))
	})
	if err := toml.Unmarshal([]byte(setting), of); err != nil {
		tr.t.Fatal(err)
	}
}

// duration is how settings are written in a file.
var duration = regexp.MustCompile(`"[0-9]+(ms|s|m|h)"`)

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

// welcome makes a user known.
func (tr *transcript) welcome(name, password string) {
	path := filepath.Join(tr.t.TempDir(), "users")
	if _, err := auth.ChangeUser(path, name, auth.Change{Password: password}); err != nil {
		tr.t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.broker.SetDoor(auth.NewDoor(users))
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

// expectError takes an ERROR off, which must be the last frame.
func (tr *transcript) expectError(c *pipeClient, message string) {
	c.mu.Lock()
	f := readFrame(c.got)
	if f != nil {
		c.got = c.got[f.size:]
	}
	c.mu.Unlock()
	if f == nil || f.command != "ERROR" || !tr.find(f, "message:"+message) || !tr.find(f, "content-type:text/plain") {
		tr.t.Fatalf("not the error: %+v", f)
	}
	if !strings.Contains(f.body, message) {
		tr.t.Errorf("the body does not say it: %q", f.body)
	}
	tr.expectNothing(c)
	if !c.eof {
		tr.t.Error("the connection is open after ERROR")
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

// expectAny puts the frame with that body and those headers in front first.
func (tr *transcript) expectAny(c *pipeClient, body string) {
	c.mu.Lock()
	want := readFrame(tr.wire(body))
	for at := 0; ; {
		f := readFrame(c.got[at:])
		if f == nil {
			break
		}
		fits := f.command == want.command && f.body == want.body
		for _, line := range want.headers {
			fits = fits && (line == "..." || tr.find(f, line))
		}
		if fits {
			c.got = append(append(bytes.Clone(f.raw), c.got[:at]...), c.got[at+f.size:]...)
			break
		}
		at += f.size
	}
	c.mu.Unlock()
	tr.expect(c, body)
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
