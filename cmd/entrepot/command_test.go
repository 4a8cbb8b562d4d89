package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"entrepot/conf"
)

// limit is how long a test waits for what must come.
const limit = 30 * time.Second

// result is what a command line did.
type result struct {
	code        int
	out, errors string
}

// do runs one command line to its end.
func do(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	code := run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// text is a buffer that one goroutine writes and another waits on.
type text struct {
	mu      sync.Mutex
	all     []byte
	changed chan struct{}
}

func newText() *text { return &text{changed: make(chan struct{}, 1)} }

func (x *text) Write(b []byte) (int, error) {
	x.mu.Lock()
	x.all = append(x.all, b...)
	x.mu.Unlock()
	select {
	case x.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.all)
}

// await waits until the text holds what is wanted.
func (x *text) await(t *testing.T, want string) {
	t.Helper()
	end := time.After(limit)
	for !strings.Contains(x.String(), want) {
		select {
		case <-x.changed:
		case <-end:
			t.Fatalf("no %q in:\n%s", want, x)
		}
	}
}

// broker is a `serve` of this process.
type broker struct {
	mqtt, stomp, http string // URLs
	log               *text
	stop              context.CancelFunc
	code              chan int
}

// inMemory adds --memory, so that no test leaves a data directory behind,
// unless the test names one.
func inMemory(args []string) []string {
	if slices.Contains(args, "--data") || slices.Contains(args, "--memory") {
		return args
	}
	return append([]string{"--memory"}, args...)
}

// start runs serve on free ports until the end of the test.
func start(t *testing.T, args ...string) *broker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{log: newText(), stop: cancel, code: make(chan int, 1)}
	args = append([]string{"serve", "--mqtt", "127.0.0.1:0", "--stomp", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--coap", "127.0.0.1:0", "--http", "127.0.0.1:0"}, inMemory(args)...)
	go func() { b.code <- run(ctx, args, nil, io.Discard, b.log) }()
	t.Cleanup(func() {
		cancel()
		b.ended(t)
	})
	b.log.await(t, "msg=ready")
	b.mqtt, b.stomp, b.http = "mqtt://"+b.address(t, "mqtt"), "stomp://"+b.address(t, "stomp"), "http://"+b.address(t, "http")
	return b
}

func (b *broker) address(t *testing.T, protocol string) string {
	t.Helper()
	m := regexp.MustCompile(`msg=listening protocol=` + protocol + ` address=(\S+)`).FindStringSubmatch(b.log.String())
	if m == nil {
		t.Fatalf("%s does not listen:\n%s", protocol, b.log)
	}
	return m[1]
}

// ended waits for the exit code.
func (b *broker) ended(t *testing.T) int {
	t.Helper()
	select {
	case code := <-b.code:
		b.code <- code // for who asks next
		return code
	case <-time.After(limit):
		t.Fatalf("serve does not end:\n%s", b.log)
		return -1
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestCommandLines(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.toml")
	bad := filepath.Join(t.TempDir(), "bad.toml")
	invalid := filepath.Join(t.TempDir(), "invalid.toml")
	for path, text := range map[string]string{good: "[log]\nlevel = \"warn\"\n", bad: "[log]\nlevl = 1\n", invalid: "[log]\nlevel = \"loud\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const usage = 2
	for _, c := range []struct {
		args   string // blank between two
		code   int
		out    string
		errors string
	}{
		{"", 0, "Available Commands:", ""},
		{"--help", 0, "A", ""},
		{"help serve", 0, "--mqtt ADDRESS", ""},
		{"serve --help", 0, "repeatable; default 127.0.0.1:1883", ""},
		{"version", 0, "entrepot ", ""},
		{"config", 0, "[mqtt.limits]", ""},
		{"check " + good, 0, good + ": ok\n", ""},
		{"check " + bad, usage, "", bad + ":2: log.levl: no such key; is log.level meant?\n"},
		{"check " + invalid, usage, "", `log: level "loud": debug, info, warn or error` + "\n"},
		{"check", usage, "", "accepts 1 arg(s), received 0\nTry 'entrepot check --help'.\n"},
		{"check /no/such/file", usage, "", "no such file"},
		{"sreve", usage, "", `no command "sreve"; is serve meant?`},
		{"frobnicate", usage, "", `no command "frobnicate"` + "\nTry 'entrepot --help'.\n"},
		{"--frobnicate", usage, "", "unknown flag: --frobnicate\nTry 'entrepot --help'."},
		{"serve --frobnicate", usage, "", "unknown flag: --frobnicate\nTry 'entrepot serve --help'."},
		{"serve here", usage, "", `unknown command "here"`},
		{"serve --config " + bad, usage, "", bad + ":2: log.levl"},
		{"serve --mqtt 0.0.0.0:1883", usage, "", `mqtt: listen: "0.0.0.0:1883" can be reached from other machines, and is not encrypted`},
		{"serve --stomp :0", usage, "", "stomp: listen: \":0\" can be reached from other machines"},
		{"serve --mqtt 1883", usage, "", `mqtt: listen: "1883" is neither HOST:PORT nor tls:HOST:PORT nor unix:/PATH nor "off"`},
		{"serve --mqtt off --stomp off --amqp off --coap off --http off", usage, "", "every protocol is off"},
		{"serve --mqtt off,127.0.0.1:0", usage, "", `"off" stands alone`},

		{"serve --data /tmp/x --memory", usage, "", "--memory and --data: one or the other"},
		{"pub", usage, "", "no URL"},
		{"pub http://h/a x", usage, "", "begins neither with mqtt:// nor with stomp://"},
		{"pub mqtt://h x", usage, "", "no topic"},
		{"pub mqtt://h/a", usage, "", "no payload: an argument, --file, --lines or --empty"},
		{"pub mqtt://h/a x y", usage, "", `unexpected argument "y"`},
		{"pub mqtt://h/a x -n", usage, "", "more than one payload"},
		{"pub mqtt://h/a -n -l", usage, "", "more than one payload"},
		{"pub mqtt://h/a x -t b", usage, "", "more than one topic"},
		{"pub mqtt://h/a/# x", usage, "", "topic a/#: + and # are for subscribing"},
		{"pub mqtt://h/a x -q 3", usage, "", "--qos 3: 0, 1 or 2"},
		{"pub mqtt://h/a x -V 4", usage, "", `--mqtt-version "4": 3.1.1 or 5`},
		{"pub mqtt://h/a x -V 3.1.1 -H a:b", usage, "", "MQTT 3.1.1 carries neither headers nor a content type"},
		{"pub mqtt://h/a x -H a", usage, "", `--header "a": not NAME:VALUE`},
		{"pub mqtt://h/a x --host v", usage, "", "--host is for stomp:// only"},
		{"pub mqtt://h/a x --timeout 0s", usage, "", "--timeout: above 0"},
		{"pub stomp://h/topic/a x -q 1", usage, "", "--qos is for mqtt:// only"},
		{"pub stomp://h/topic/a x -V 5", usage, "", "--mqtt-version is for mqtt:// only"},
		{"pub mqtt://h/a -f /no/such/file", 1, "", "payload: open /no/such/file"},
		{"pub mqtt://127.0.0.1:1/a x", 1, "", "broker 127.0.0.1:1: nobody listens there"},
		{"sub", usage, "", "no URL"},
		{"sub mqtt://h", usage, "", "no topic"},
		{"sub mqtt://h/a b", usage, "", `unexpected argument "b"`},
		{"sub mqtt://h/a -q -1", usage, "", "--qos -1: 0, 1 or 2"},
		{"sub mqtt://h/a -C -1", usage, "", "not negative"},
		{"sub mqtt://h/a --expiry 1h", usage, "", "found again by --id"},
		{"sub mqtt://h/a --json -v", usage, "", "--json prints the topic itself"},
		{"sub mqtt://h/a -V 3.1.1 -H a:b", usage, "", "MQTT 3.1.1 carries no headers"},
		{"sub stomp://h/topic/a -i x", usage, "", "--id is for mqtt:// only"},
		{"sub stomp://h/topic/a -R", usage, "", "--no-retained is for mqtt:// only"},
		{"sub stomp://127.0.0.1:1/topic/a", 1, "", "nobody listens there"},
		{"backup", usage, "", "accepts 1 arg(s), received 0\nTry 'entrepot backup --help'.\n"},
		{"restore", usage, "", "Try 'entrepot restore --help'.\n"},
		{"repair a b", usage, "", "Try 'entrepot repair --help'.\n"},
		{"backup --config " + bad + " x", usage, "", bad + ":2: log.levl"},
		{"bench", usage, "", "Try 'entrepot bench --help'."},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := do(t, "", strings.Fields(c.args)...)
			if r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(r.errors, c.errors) {
				t.Errorf("code %d, out %q, errors %q; want %d, %q, %q", r.code, r.out, r.errors, c.code, c.out, c.errors)
			}
			if (r.errors == "") != (c.code == 0) || r.errors != "" && !strings.HasPrefix(r.errors, "entrepot: ") {
				t.Errorf("errors %q", r.errors)
			}
		})
	}
}

func TestConfigPrintsTheSample(t *testing.T) {
	if r := do(t, "", "config"); r.out != conf.Sample {
		t.Errorf("%q", r.out)
	}
}

// The environment counts in check as in serve.
func TestCheckReadsTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_MQTT_LISTN", "x")
	r := do(t, "", "check", file)
	if r.code != exitUsage || r.errors != "entrepot: ENTREPOT_MQTT_LISTN: sets no key; is ENTREPOT_MQTT_LISTEN meant?\n" {
		t.Errorf("%+v", r)
	}
}

// Each value in the help has a name that says what it is.
func TestHelp(t *testing.T) {
	for _, name := range []string{"serve", "pub", "sub", "passwd", "backup", "restore", "repair"} {
		r := do(t, "", name, "--help")
		if r.code != 0 || !strings.Contains(r.out, "Examples:") {
			t.Errorf("%s: %s", name, r.out)
		}
		for line := range strings.Lines(r.out) {
			if len(line) > 132 || regexp.MustCompile(` (string|strings|int|duration)  `).MatchString(line) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// failing is an output that takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no paper") }

func TestOutputThatFails(t *testing.T) {
	for _, args := range []string{"version", "config"} {
		var errs bytes.Buffer
		if code := run(t.Context(), []string{args}, nil, failing{}, &errs); code != exitFailed || !strings.Contains(errs.String(), "no paper") {
			t.Errorf("%s: code %d, %s", args, code, &errs)
		}
	}
}

func freePort(t *testing.T) (taken net.Listener, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, fmt.Sprint(l.Addr())
}
