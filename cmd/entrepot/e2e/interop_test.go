package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	interop = "../../../testdata/interop"
	// python is Debian's, which is the one that has its packages.
	python = "/usr/bin/python3"
)

// TestInterop runs the scripts of testdata/interop, whose clients are other
// people's, against the built program.
func TestInterop(t *testing.T) {
	needClients(t)
	p := startProgram(t)
	scripts := []string{"with_mosquitto.py", "with_paho.py", "with_stomp_py.py", "crossing.py", "with_coap_client.py", "with_coap_pubsub.py"}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(script, ".py"), func(t *testing.T) {
			runScript(t, script, "MQTT="+p.addr("mqtt"), "STOMP="+p.addr("stomp"), "COAP="+p.addr("coap"))
			if t.Failed() {
				t.Logf("broker's log:\n%s", p.log())
			}
		})
	}
	p.stop(t)
}

// TestInteropAutobahn runs Autobahn for Python against the built program.
func TestInteropAutobahn(t *testing.T) {
	needModules(t, "python3-autobahn", "autobahn")
	p := startProgram(t)
	runScript(t, "with_autobahn.py", "WAMP=ws://"+p.addr("http")+"/ws")
	p.stop(t)
}

// needClients skips the test where the clients are not there; continuous
// integration has to have them.
func needClients(t *testing.T) {
	t.Helper()
	needPrograms(t, "mosquitto-clients", "mosquitto_sub", "mosquitto_pub")
	needPrograms(t, "libcoap3-bin", "coap-client-notls")
	needModules(t, "python3-paho-mqtt python3-stomp", "paho.mqtt.client", "stomp")
}

// needModules is needPrograms for what Python imports.
func needModules(t *testing.T, debian string, names ...string) {
	t.Helper()
	for _, name := range names {
		if exec.Command(python, "-c", "import "+name).Run() == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("Python's %s is missing (%s)", name, debian)
		}
		t.Skipf("Python's %s is missing (%s)", name, debian)
	}
}

// runScript runs a script of testdata/interop; env tells it where brokers
// listen.
func runScript(t *testing.T, script string, env ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script)
	cmd.Dir = interop
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	runChecks(t, cmd)
}

// runChecks turns each line "ok …" or "not ok …" that cmd prints into a test.
func runChecks(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	checks := 0
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		name, failed := strings.CutPrefix(line, "not ok ")
		ok := strings.HasPrefix(line, "ok ")
		if !failed && !ok {
			continue
		}
		checks++
		name, _, _ = strings.Cut(name, ": ")
		t.Run(strings.TrimPrefix(name, "ok "), func(t *testing.T) {
			if failed {
				t.Error(line)
			}
		})
	}
	if err != nil || checks == 0 {
		t.Errorf("%v: %d checks, %v\n%s", cmd.Args, checks, err, errs.String())
	}
}

// program is the built program, running.
type program struct {
	cmd   *exec.Cmd
	ended chan error

	mu    sync.Mutex
	lines []string
}

// startProgram builds and starts the program, in memory; more are further
// flags of `serve`.
func startProgram(t *testing.T, more ...string) *program {
	t.Helper()
	return launch(t, buildProgram(t), append(more, "--memory")...)
}

// buildProgram builds the program and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "entrepot")
	build := exec.Command("go", "build", "-o", binary, "entrepot/cmd/entrepot")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	return binary
}

// launch starts the program on free ports of the loopback and waits until it
// is ready; more are flags of `serve` beside those.
func launch(t *testing.T, binary string, more ...string) *program {
	t.Helper()
	p := &program{ended: make(chan error, 1)}
	p.cmd = exec.Command(binary, append([]string{"serve", "--mqtt", "127.0.0.1:0", "--stomp", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--coap", "127.0.0.1:0", "--http", "127.0.0.1:0"}, more...)...)
	p.cmd.Dir = t.TempDir()
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = p.cmd.Stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
		p.ended <- p.cmd.Wait()
	}()
	if !eventually(20*time.Second, p.ready) {
		t.Fatalf("the program is not ready:\n%s", p.log())
	}
	return p
}

func (p *program) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// addr is the address that the start-up line of a listener names, "" before.
func (p *program) addr(protocol string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	address := regexp.MustCompile(`(?i)\b` + protocol + `\b.*\b(127\.0\.0\.1:[1-9][0-9]*)`)
	for _, line := range p.lines {
		if m := address.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// ready asks the program itself.
func (p *program) ready() bool {
	addr := p.addr("http")
	if addr == "" || p.addr("mqtt") == "" || p.addr("stomp") == "" {
		return false
	}
	r, err := http.Get(fmt.Sprintf("http://%s/readyz", addr))
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

// kill ends the program at once. What it wrote is with the system.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// stop asks the program to end and expects that it ends well.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the program ended with %v:\n%s", err, p.log())
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the program does not end:\n%s", p.log())
	}
}
