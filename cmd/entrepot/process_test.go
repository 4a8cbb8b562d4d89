package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildFolder is where binary builds; TestMain makes and removes it.
var buildFolder string

// binary builds the command once and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildFolder, "entrepot")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if buildFolder, err = os.MkdirTemp("", "entrepot"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(buildFolder)
	os.Exit(code)
}

// process is the built command, running.
type process struct {
	*exec.Cmd
	log *text
}

// launch runs `serve` as a process of its own.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--mqtt", "127.0.0.1:0", "--stomp", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--coap", "127.0.0.1:0", "--http", "127.0.0.1:0"}, inMemory(args)...)
	p := &process{exec.Command(path, args...), newText()}
	p.Env = append(os.Environ(), env...)
	p.Stderr = p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // when the test failed before its end
	p.log.await(t, "msg=ready")
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// code waits for the end.
func (p *process) code() int {
	_ = p.Wait() // the exit code is what counts
	return p.ProcessState.ExitCode()
}

func TestSignals(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := launch(t, nil)
		p.signal(t, s)
		if code := p.code(); code != 0 || !strings.Contains(p.log.String(), "msg=stopped") {
			t.Errorf("%v: exit code %d:\n%s", s, code, p.log)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := launch(t, []string{"ENTREPOT_MQTT_LIMITS_LINGER=60s", "ENTREPOT_PROCESS_GRACE=60s"})
	b := &broker{log: p.log}
	connectMQTT(t, "mqtt://"+b.address(t, "mqtt"))
	p.signal(t, syscall.SIGTERM)
	p.log.await(t, "msg=stopping")
	later := time.NewTimer(2 * oneStop)
	<-later.C
	p.signal(t, syscall.SIGTERM)
	if code := p.code(); code != exitFailed || !strings.Contains(p.log.String(), "second signal, ending at once") {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}

// Two signals at once are one stop: timeout(1) signals the process and then its
// group.
func TestTwoSignalsAtOnceAreOne(t *testing.T) {
	p := launch(t, nil)
	p.signal(t, os.Interrupt)
	p.signal(t, syscall.SIGTERM)
	if code := p.code(); code != 0 || !strings.Contains(p.log.String(), "msg=stopped") {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
}

// A killed broker leaves its socket; the next one takes it over.
func TestSocketOfAKilledBroker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.sock")
	p := launch(t, nil, "--mqtt", "unix:"+path)
	p.signal(t, syscall.SIGKILL)
	p.code()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	p = launch(t, nil, "--mqtt", "unix:"+path)
	pub(t, "mqtt://localhost/a", "--unix", path, "x")
	p.signal(t, syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestExitCodesOfTheProcess(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"version"}, 0}, {[]string{"frobnicate"}, exitUsage},
		{[]string{"pub", "mqtt://127.0.0.1:1/a", "x"}, exitFailed},
	} {
		var errs bytes.Buffer
		cmd := exec.Command(path, c.args...)
		cmd.Stderr = &errs
		_ = cmd.Run() // the exit code is what counts
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, got, c.want, &errs)
		}
	}
}

// The percentage that the process runs with is to be seen in its metrics.
func TestMemorySettingsAct(t *testing.T) {
	p := launch(t, []string{"GOGC=", "GOMEMLIMIT=", "ENTREPOT_PROCESS_MEMORY_LIMIT=1GiB"})
	b := &broker{log: p.log}
	_, metrics := get(t, "http://"+b.address(t, "http")+"/metrics")
	for _, want := range []string{"\ngo_gc_gogc_percent 1", "\ngo_gc_gomemlimit_bytes 1.073741824e+09"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %q in\n%s", want, metrics)
		}
	}
	p.signal(t, syscall.SIGTERM)
	p.code()
}
