package wamp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pelletier/go-toml/v2"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/routing"
)

// A transcript is a file of steps, one a line; it is run in each encoding. What is
// written as JSON goes and comes in the encoding.
//
//	# the rule that the steps prove
//	config meta_kill = true
//	broker clients.queues = 1  of the broker
//	limited queues 1     how often somebody came to a limit
//	user ann secret      may log in, nobody else
//	a joins              opens a session with every role and feature; $a is its id
//	a joins as ann       the same, with the password "secret", as a client that can be
//	                     told of an end
//	a connects           opens a connection without HELLO
//	a > [1,"r",{}]       sends a message; "$name" stands for what was kept
//	a < [2,"$x",{}]      gets a message: "*" is any value, "$name" keeps it or, later,
//	                     must be it again, {"...":1} lets a dict have more members
//	a gets, any order [] the same, but others may come before it
//	a < nothing
//	a < closed 1000      the end of the connection, with that close code
//	a frame 89 00        sends a frame: first byte in hex, then data; masked
//	a bytes 81 05        sends these bytes as they are
//	a forgets            what it got
//	a hangs up           closes without a word
//	wait 2s              of the bubble's clock
//	rules allow …; …     of who may do what, from now on
//	stop                 the broker stops
//	publish a/b text     by another protocol: topic, content type or -, payload
type transcript struct {
	t       *testing.T
	e       encoding
	server  *Server
	broker  *core.Broker
	other   *core.Session
	clients map[string]*pipeClient
	vars    map[string]any
	users   []string
}

// pipeClient is a WebSocket client on a pipe.
type pipeClient struct {
	conn net.Conn
	e    encoding

	mu   sync.Mutex
	got  []byte
	msgs []any
	code int
	eof  bool
}

func (c *pipeClient) read() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.conn.Read(buf)
		c.mu.Lock()
		c.got = append(c.got, buf[:n]...)
		c.take()
		c.eof = err != nil
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take reads whole frames of the broker. With mu held.
func (c *pipeClient) take() {
	for len(c.got) >= 2 {
		head, size := frameHead(c.got[1])-4, uint64(0)
		if len(c.got) < head {
			return
		}
		if size = frameSize(c.got); uint64(len(c.got)-head) < size {
			return
		}
		op, data := c.got[0]&15, c.got[head:head+int(size)]
		switch op {
		case opClose:
			c.code = int(data[0])<<8 | int(data[1])
		case opPing, opPong:
			c.msgs = append(c.msgs, fmt.Sprintf("op %d %s", op, data))
		default:
			b, rest, err := c.e.cut(data)
			if err != nil || len(rest) > 0 {
				c.msgs = append(c.msgs, fmt.Sprint("bad batch ", err))
			} else if n, err := c.e.skip(b, 0); err != nil || n != len(b) {
				c.msgs = append(c.msgs, fmt.Sprintf("bad message %q: %v", b, err))
			} else {
				c.msgs = append(c.msgs, asJSON(c.e.decode(b)))
			}
		}
		c.got = c.got[head+int(size):]
	}
}

// asJSON is a value as encoding/json reads it.
func asJSON(v any) any {
	var out any
	if err := json.Unmarshal(jsonFormat{}.encode(nil, v), &out); err != nil {
		return err.Error()
	}
	return out
}

// clientFrame is a client's frame, masked.
func clientFrame(first byte, data []byte) []byte {
	b := sealFrame(append(openFrame(nil), data...), 0, 0)
	head := len(b) - len(data)
	out := append([]byte{first, b[1] | 0x80}, b[2:head]...)
	key := []byte{1, 2, 3, 4}
	out = append(out, key...)
	data = append([]byte{}, data...)
	unmask(data, key)
	return append(out, data...)
}

// frameOf is a message as a client's frame.
func (e *encoding) frameOf(v any) []byte {
	b := e.encode(nil, v)
	if e.batched && e.text {
		b = append(b, jsonSeparator)
	} else if e.batched {
		b = append([]byte{byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
	}
	if e.text {
		return clientFrame(0x80|opText, b)
	}
	return clientFrame(0x80|opBinary, b)
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../../testdata/wamp/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, sub := range Names() {
			if only := strings.HasPrefix(name, "json-"); only && sub != "wamp.2.json" {
				continue
			}
			t.Run(name+"/"+strings.TrimPrefix(sub, "wamp.2."), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runTranscript(t, sub, string(text)) })
			})
		}
	}
}

func runTranscript(t *testing.T, sub, text string) {
	e, _ := encodingOf(sub)
	s := &transcript{t: t, e: e, clients: map[string]*pipeClient{}, vars: map[string]any{}}
	cfg, set := DefaultConfig(), core.DefaultConfig()
	set.MaxMessage = 1 << 20
	lines := strings.Split(text, "\n")
	for _, line := range lines {
		if set, ok := strings.CutPrefix(line, "config "); ok {
			if err := toml.Unmarshal([]byte(set), &cfg); err != nil {
				t.Fatal(err)
			}
		}
		if setting, ok := strings.CutPrefix(line, "broker "); ok {
			if err := toml.Unmarshal([]byte(setting), &set); err != nil {
				t.Fatal(err)
			}
		}
		if u, ok := strings.CutPrefix(line, "user "); ok {
			s.users = append(s.users, u)
		}
	}
	s.start(cfg, set)
	defer s.end()
	for i, line := range lines {
		if line == "" || line[0] == '#' || strings.HasPrefix(line, "config ") || strings.HasPrefix(line, "broker ") || strings.HasPrefix(line, "user ") {
			continue
		}
		if err := s.step(line); err != nil {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
	}
}

func (s *transcript) start(cfg Config, set core.Config) {
	log := slog.New(slog.DiscardHandler)
	s.broker = core.NewBroker(set, "/", local.New(log), nil, log)
	if len(s.users) > 0 {
		s.broker.SetDoor(auth.NewDoor(testUsers(s.t, s.users)))
	}
	s.server = New(cfg, adapters.DefaultWebSocketConfig(), core.NewRealms(s.broker), log)
	if len(s.users) > 0 { // who is nobody may not be there
		return
	}
	var err error
	if s.other, _, err = s.broker.Connect(context.Background(), core.Hello{Protocol: "mqtt", ClientID: "other"}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *transcript) end() {
	if s.other != nil {
		s.other.Close(core.CloseNormal)
	}
	if err := s.server.Shutdown(context.Background()); err != nil {
		s.t.Error(err)
	}
	for _, c := range s.clients {
		_ = c.conn.Close()
	}
	s.broker.Close()
}

// testUsers are users with passwords that are checked quickly.
func testUsers(t *testing.T, all []string) *auth.Users {
	path := filepath.Join(t.TempDir(), "users")
	for _, u := range all {
		name, password, _ := strings.Cut(u, " ")
		if _, err := auth.ChangeUser(path, name, auth.Change{Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

func (s *transcript) step(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "wait":
		d, err := time.ParseDuration(rest)
		time.Sleep(d)
		return err
	case "stop":
		return s.server.Shutdown(context.Background())
	case "rules":
		rules, err := auth.ParseRules([]byte(strings.ReplaceAll(rest, "; ", "\n")))
		if err == nil {
			s.broker.SetPolicy(rules.Decide)
		}
		return err
	case "publish":
		return s.publish(rest)
	case "limited":
		name, count, _ := strings.Cut(rest, " ")
		if n := s.broker.Limited()[name]; fmt.Sprint(n) != count {
			return fmt.Errorf("%d", n)
		}
		return nil
	}
	c := s.clients[word]
	switch verb, what, _ := strings.Cut(rest, " "); {
	case verb == "connects":
		s.connect(word)
	case verb == "joins" && what != "":
		return s.joinAs(word, strings.TrimPrefix(what, "as "))
	case verb == "joins":
		return s.join(word)
	case c == nil:
		return fmt.Errorf("no client %s", word)
	case verb == ">":
		return s.send(c, what)
	case verb == "gets,":
		return s.getsAmong(c, strings.TrimPrefix(what, "any order "))
	case verb == "<":
		return s.gets(c, what)
	case verb == "frame", verb == "bytes":
		return raw(c, verb, what)
	case rest == "forgets":
		synctest.Wait()
		c.mu.Lock()
		c.msgs = nil
		c.mu.Unlock()
	case rest == "hangs up":
		return c.conn.Close()
	default:
		return fmt.Errorf("unknown step")
	}
	return nil
}

func (s *transcript) connect(name string) *pipeClient {
	ours, theirs := net.Pipe()
	c := &pipeClient{conn: ours, e: s.e}
	s.clients[name] = c
	s.server.ServeFrames(theirs, s.e.name, nil)
	go c.read()
	return c
}

const allRoles = `{"publisher":{},"subscriber":{},"caller":{},"callee":{"features":{"call_canceling":true,"progressive_call_results":true,"call_timeout":true}}}`

// withRevocation are all roles of a client that can be told of an end.
const withRevocation = `{"publisher":{},"subscriber":{"features":{"subscription_revocation":true}},"caller":{},"callee":{"features":{"registration_revocation":true}}}`

func (s *transcript) join(name string) error {
	c := s.connect(name)
	if err := s.send(c, `[1,"realm1",{"roles":`+allRoles+`,"team":"team-`+name+`"}]`); err != nil {
		return err
	}
	return s.gets(c, `[2,"$`+name+`",{"authrole":"anonymous","...":1}]`)
}

func (s *transcript) joinAs(name, user string) error {
	c := s.connect(name)
	if err := s.send(c, `[1,"realm1",{"roles":`+withRevocation+`,"authid":"`+user+`","authmethods":["ticket"]}]`); err != nil {
		return err
	}
	if err := s.gets(c, `[4,"ticket",{}]`); err != nil {
		return err
	}
	if err := s.send(c, `[5,"secret",{}]`); err != nil {
		return err
	}
	return s.gets(c, `[2,"$`+name+`",{"authid":"`+user+`","...":1}]`)
}

func (s *transcript) send(c *pipeClient, text string) error {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	_, err := c.conn.Write(c.e.frameOf(s.fill(v)))
	synctest.Wait()
	return err
}

// fill puts in what was kept, and makes values of our own kinds.
func (s *transcript) fill(v any) any {
	switch v := v.(type) {
	case string:
		if strings.HasPrefix(v, "$") && s.vars[v] != nil {
			return s.fill(s.vars[v])
		}
		if b, ok := fromJSONBinary([]byte(v)); ok {
			return b
		}
	case float64:
		return int64(v)
	case json.Number:
		return jsonNumber(v.String())
	case []any:
		all := list{}
		for _, e := range v {
			all = append(all, s.fill(e))
		}
		return all
	case map[string]any:
		all := dict{}
		for k, e := range v {
			all = append(all, member{k, s.fill(e)})
		}
		return all
	}
	return v
}

func (s *transcript) gets(c *pipeClient, what string) error {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var code int
	switch {
	case what == "nothing":
		if len(c.msgs) > 0 || c.eof {
			return fmt.Errorf("got %v, closed %v", c.msgs, c.eof)
		}
		return nil
	case strings.HasPrefix(what, "closed"):
		_, err := fmt.Sscanf(what, "closed %d", &code)
		if err != nil || len(c.msgs) > 0 || c.code != code {
			return fmt.Errorf("got %v, close code %d", c.msgs, c.code)
		}
		return nil
	}
	var want any
	if err := json.Unmarshal([]byte(what), &want); err != nil {
		return err
	}
	if len(c.msgs) == 0 {
		return fmt.Errorf("got nothing, closed %v", c.eof)
	}
	got := c.msgs[0]
	c.msgs = c.msgs[1:]
	if !s.match(want, got) {
		text, _ := json.Marshal(got)
		return fmt.Errorf("got %s", text)
	}
	return nil
}

// getsAmong takes the one message that fits out of those that came.
func (s *transcript) getsAmong(c *pipeClient, what string) error {
	synctest.Wait()
	var want any
	if err := json.Unmarshal([]byte(what), &want); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := s.vars
	for i, got := range c.msgs {
		s.vars = maps.Clone(kept) // one that is not it leaves no values
		if s.match(want, got) {
			c.msgs = append(c.msgs[:i:i], c.msgs[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("none of %v", c.msgs)
}

func (s *transcript) match(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == "*" {
			return true
		}
		if !strings.HasPrefix(want, "$") {
			return want == got
		}
		if kept, ok := s.vars[want]; ok {
			return kept == got
		}
		s.vars[want] = got
		return true
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !s.match(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		return s.matchDict(want, got)
	}
	return want == got
}

func (s *transcript) matchDict(want map[string]any, got any) bool {
	d, ok := got.(map[string]any)
	_, more := want["..."]
	if !ok || !more && len(d) != len(want) {
		return false
	}
	for k, v := range want {
		if have, ok := d[k]; k != "..." && (!ok || !s.match(v, have)) {
			return false
		}
	}
	return true
}

func raw(c *pipeClient, verb, what string) error {
	b, err := hex.DecodeString(strings.ReplaceAll(what, " ", ""))
	if err != nil {
		return err
	}
	if verb == "frame" {
		b = clientFrame(b[0], b[1:])
	}
	// The broker may have closed.
	_, _ = c.conn.Write(b)
	synctest.Wait()
	return nil
}

func (s *transcript) publish(rest string) error {
	parts := strings.SplitN(rest, " ", 3)
	t, err := routing.ParseTopic(parts[0])
	if err != nil {
		return err
	}
	m := &core.Message{Exchange: core.TopicExchange, Topic: t, Payload: []byte(parts[2])}
	if parts[1] != "-" {
		m.Props = &core.Properties{ContentType: parts[1]}
	}
	s.other.Publish(nil, m, func(_ bool, e error) { err = e })
	synctest.Wait()
	return err
}
