package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(context.Background(), limit)
}

// subscriber is a running `sub`.
type subscriber struct {
	out, errors *text
	stop        context.CancelFunc
	code        chan int
}

// subscribe runs sub and waits until it has subscribed.
func subscribe(t *testing.T, args ...string) *subscriber {
	t.Helper()
	ctx, cancel := contextOf(t)
	s := &subscriber{newText(), newText(), cancel, make(chan int, 1)}
	go func() { s.code <- run(ctx, append([]string{"sub"}, args...), nil, s.out, s.errors) }()
	t.Cleanup(cancel)
	s.errors.await(t, "subscribed to")
	return s
}

// ends waits for the end and returns what was printed.
func (s *subscriber) ends(t *testing.T, code int) string {
	t.Helper()
	if got := <-s.code; got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, s.errors)
	}
	return s.out.String()
}

// pub sends and expects success.
func pub(t *testing.T, args ...string) {
	t.Helper()
	if r := do(t, "", append([]string{"pub"}, args...)...); r.code != 0 || r.out != "" {
		t.Fatalf("pub %q: %+v", args, r)
	}
}

func TestCrossing(t *testing.T) {
	b := start(t, "--memory")
	for _, c := range []struct {
		name     string
		sub, pub []string
		want     string
	}{
		{"STOMP to MQTT", []string{b.mqtt + "/plant/+/temp", "-v"}, []string{b.stomp + "/topic/plant.7.temp"}, "plant/7/temp 21.5\n"},
		{"MQTT to STOMP", []string{b.stomp + "/topic/plant.*.temp", "-v"}, []string{b.mqtt + "/plant/7/temp"}, "/topic/plant.7.temp 21.5\n"},
		{"# is not lost", []string{b.mqtt + "/plant/#", "-v"}, []string{b.mqtt + "/plant"}, "plant 21.5\n"},
		{"% and ? are themselves", []string{b.mqtt + "/a%25?b", "-v"}, []string{b.mqtt + "/a%25?b"}, "a%25?b 21.5\n"},
		{"more filters", []string{b.mqtt, "-t", "x/#", "-t", "y/#"}, []string{b.mqtt, "-t", "y/1"}, "21.5\n"},
		{"MQTT 3.1.1 QoS 2", []string{b.mqtt + "/v3", "-V", "3.1.1", "-q", "2"}, []string{b.mqtt + "/v3", "-V", "3.1.1", "-q", "2"}, "21.5\n"},
		{"no line end", []string{b.mqtt + "/n", "-N"}, []string{b.mqtt + "/n"}, "21.5"},
		{"queue, MQTT to STOMP", []string{b.stomp + "/queue/a"}, []string{b.mqtt + "/$queue/a"}, "21.5\n"},
		{"queue, STOMP to MQTT", []string{b.mqtt + "/$queue/b", "-q", "1", "-v"}, []string{b.stomp + "/queue/b"}, "$queue/b 21.5\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := subscribe(t, append(c.sub, "-C", "1")...)
			pub(t, append(c.pub, "21.5")...)
			if got := s.ends(t, 0); got != c.want {
				t.Errorf("printed %q, want %q", got, c.want)
			}
		})
	}
}

// What was sent to a queue before anybody worked on it waits there.
func TestQueueKeeps(t *testing.T) {
	b := start(t, "--memory")
	s := subscribe(t, b.stomp+"/queue/orders", "-C", "1")
	pub(t, b.stomp+"/queue/orders", "first")
	s.ends(t, 0)
	if r := do(t, "second\nthird", "pub", b.stomp+"/queue/orders", "--lines"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := do(t, "", "sub", b.mqtt+"/$queue/orders", "-q", "1", "-C", "2", "--quiet"); r.code != 0 || r.out != "second\nthird\n" || r.errors != "" {
		t.Errorf("%+v", r)
	}
}

func TestPayloads(t *testing.T) {
	b := start(t, "--memory")
	binary := "\x00\xff\r\nno end"
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{b.mqtt + "/p", b.stomp + "/topic/p"} {
		for _, c := range []struct {
			name, stdin string
			args        []string
			count, want string
		}{
			{"file", "", []string{"-f", file}, "1", binary},
			{"standard input", binary, []string{"-f", "-"}, "1", binary},
			{"empty standard input", "", []string{"-f", "-"}, "1", ""},
			{"empty", "", []string{"--empty"}, "1", ""},
			{"empty argument", "", []string{""}, "1", ""},
			{"lines", "a\r\n\nlast", []string{"--lines", "-q", "1"}, "3", "a\rlast"},
			{"lines of a file", "", []string{"--lines", "-f", file}, "2", "\x00\xff\rno end"},
		} {
			t.Run(c.name+" to "+url[:5], func(t *testing.T) {
				args := c.args
				if strings.HasPrefix(url, "stomp") && c.name == "lines" {
					args = args[:1]
				}
				s := subscribe(t, b.mqtt+"/p", "-N", "-q", "1", "-C", c.count)
				if r := do(t, c.stdin, append([]string{"pub", url}, args...)...); r.code != 0 {
					t.Fatalf("%+v", r)
				}
				if got := s.ends(t, 0); got != c.want {
					t.Errorf("printed %q, want %q", got, c.want)
				}
			})
		}
	}
}

func TestJSON(t *testing.T) {
	b := start(t, "--memory")
	s := subscribe(t, b.mqtt+"/j/#", "--json", "-q", "1", "-C", "2")
	pub(t, b.mqtt+"/j/<text>", "-q", "1", "-H", "a: 1", "-H", "a:2", "--content-type", "text/plain", "21.5 °C")
	pub(t, b.stomp+"/topic/j.binary", "\xff\x00")
	lines := strings.Split(s.ends(t, 0), "\n")
	if want := `{"topic":"j/<text>","payload":"21.5 °C","qos":1,"retain":false,"content_type":"text/plain","headers":[["a","1"],["a","2"]]}`; lines[0] != want {
		t.Errorf("printed %s, want %s", lines[0], want)
	}
	var m struct {
		Topic   string
		Payload *string
		Base64  string `json:"payload_base64"`
	}
	if err := json.Unmarshal([]byte(lines[1]), &m); err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(m.Base64); err != nil || string(raw) != "\xff\x00" || m.Payload != nil || m.Topic != "j/binary" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestRetainedAcross(t *testing.T) {
	b := start(t, "--memory")
	pub(t, "-r", b.stomp+"/topic/state", "on")
	s := subscribe(t, b.mqtt+"/state", "--json", "-C", "1")
	if got := s.ends(t, 0); !strings.Contains(got, `"payload":"on","qos":0,"retain":true`) {
		t.Errorf("printed %s", got)
	}
	for _, flags := range [][]string{{"-R"}, {"-R", "-V", "3.1.1"}} {
		r := do(t, "", append([]string{"sub", b.mqtt + "/state", "-W", "100ms"}, flags...)...)
		if r.code != 0 || r.out != "" {
			t.Errorf("%q: %+v", flags, r)
		}
	}
	pub(t, "-r", "-n", b.mqtt+"/state") // clears it
	if r := do(t, "", "sub", b.mqtt+"/state", "-W", "100ms", "-C", "1"); r.code != exitFailed || !strings.Contains(r.errors, "entrepot: ended with 0 of 1 messages") {
		t.Errorf("%+v", r)
	}
}

func TestKeptSession(t *testing.T) {
	b := start(t, "--memory")
	args := []string{b.mqtt + "/kept", "-q", "1", "-i", "me", "--expiry", "1h", "-C", "1"}
	s := subscribe(t, args...)
	pub(t, b.mqtt+"/kept", "-q", "1", "one")
	s.ends(t, 0)
	pub(t, b.mqtt+"/kept", "-q", "1", "two")
	s = subscribe(t, args...)
	if got := s.ends(t, 0); got != "two\n" || !strings.Contains(s.errors.String(), "resumed session me") {
		t.Errorf("printed %q, %s", got, s.errors)
	}
}

func TestInterruptedSubscriber(t *testing.T) {
	b := start(t, "--memory")
	s := subscribe(t, b.mqtt+"/a")
	s.stop()
	s.ends(t, 0)
	s = subscribe(t, b.mqtt+"/a", "-C", "1")
	s.stop()
	s.ends(t, exitFailed)
}

// An input that says nothing does not hold up the end.
func TestInterruptedPublisher(t *testing.T) {
	b := start(t, "--memory")
	s := subscribe(t, b.mqtt+"/a", "-C", "1")
	in, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := contextOf(t)
	defer cancel()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"pub", b.mqtt + "/a", "-l"}, in, io.Discard, &errs) }()
	io.WriteString(typed, "a line\nhalf")
	if got := s.ends(t, 0); got != "a line\n" {
		t.Errorf("printed %q", got)
	}
	cancel()
	if got := <-code; got != exitFailed || errs.String() != "entrepot: interrupted\n" {
		t.Errorf("code %d, %s", got, &errs)
	}
}

func TestNoSubscriber(t *testing.T) {
	b := start(t, "--memory")
	if r := do(t, "", "pub", "-q", "1", b.mqtt+"/nobody", "x"); r.code != 0 || r.errors != "entrepot: no subscriber matched\n" {
		t.Errorf("%+v", r)
	}
	if r := do(t, "", "pub", "-q", "1", "--quiet", b.mqtt+"/nobody", "x"); r.code != 0 || r.errors != "" {
		t.Errorf("%+v", r)
	}
}

func TestRefusals(t *testing.T) {
	b := start(t, "--memory")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pub", "-q", "1", b.mqtt + "/$SYS/x", "x"}, "message refused: not authorized (0x87)"},
		{[]string{"pub", b.stomp + "/nonsense/x", "x"}, "the broker ended the connection: "},
		{[]string{"sub", b.stomp + "/nonsense/x"}, "the broker ended the connection: "},
		{[]string{"sub", b.mqtt + "/a/#/b"}, "subscription to a/#/b refused: topic filter invalid (0x8F)"},
	} {
		if r := do(t, "", c.args...); r.code != exitFailed || !strings.Contains(r.errors, c.want) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
}

func TestOverUnixSockets(t *testing.T) {
	dir := t.TempDir()
	b := start(t, "--memory", "--mqtt", "unix:"+dir+"/m.sock", "--stomp", "unix:"+dir+"/s.sock")
	b.log.await(t, "protocol=mqtt address=unix:"+dir+"/m.sock")
	s := subscribe(t, "mqtt://localhost/a", "--unix", dir+"/m.sock", "-C", "1")
	pub(t, "stomp://localhost/topic/a", "--unix", dir+"/s.sock", "over")
	if got := s.ends(t, 0); got != "over\n" {
		t.Errorf("printed %q", got)
	}
	b.stop()
	b.ended(t)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestOutputOfSubThatFails(t *testing.T) {
	b := start(t, "--memory")
	pub(t, "-r", b.mqtt+"/a", "x")
	for _, flag := range []string{"-v", "--json"} {
		var errs bytes.Buffer
		if code := run(t.Context(), []string{"sub", b.mqtt + "/a", "--quiet", flag}, nil, failing{}, &errs); code != exitFailed || !strings.Contains(errs.String(), "no paper") {
			t.Errorf("%s: code %d, %s", flag, code, &errs)
		}
	}
}
