package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitServer is where Debian has the script that starts RabbitMQ as the user
// who calls it.
const rabbitServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// rabbit is a RabbitMQ of the test's own: its ports, its folder, its Erlang
// port mapper. Nothing of it can be reached from outside the machine.
type rabbit struct {
	addr   string
	folder string
	ports  [3]int // AMQP, Erlang's distribution, Erlang's port mapper
	log    outputText
	server *part
}

// part is one of its processes.
type part struct {
	process *os.Process
	ended   chan struct{}
}

// outputText is what a process wrote, for who looks on while it runs.
type outputText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *outputText) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *outputText) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// needPrograms skips the test where a program is missing; continuous
// integration has to have it.
func needPrograms(t *testing.T, debian string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing (%s)", name, debian)
		}
		t.Skipf("%s is missing (%s)", name, debian)
	}
}

// startRabbitMQ starts a RabbitMQ and ends it with the test. It is not ready
// yet: see ready.
func startRabbitMQ(t *testing.T) *rabbit {
	t.Helper()
	needPrograms(t, "rabbitmq-server", rabbitServer, "epmd")
	r := &rabbit{folder: t.TempDir()}
	for i := range r.ports {
		r.ports[i] = freePort(t)
	}
	r.addr = fmt.Sprintf("127.0.0.1:%d", r.ports[0])
	r.write(t, "rabbitmq.conf", "listeners.tcp.1 = "+r.addr+"\nlog.console = true\nlog.console.level = warning\nlog.file = false\n")
	r.write(t, "plugins", "[].\n")
	epmd := exec.Command("epmd", "-port", fmt.Sprint(r.ports[2]), "-address", "127.0.0.1")
	r.start(t, epmd)
	r.startServer(t)
	return r
}

func (r *rabbit) startServer(t *testing.T) {
	t.Helper()
	server := exec.Command(rabbitServer, "-noinput")
	server.Env = append(os.Environ(), r.environment()...)
	r.server = r.start(t, server)
}

// restart asks the server to end, and starts it again on what it has kept.
func (r *rabbit) restart(t *testing.T) {
	t.Helper()
	if err := r.server.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.server.ended:
	case <-time.After(60 * time.Second):
		t.Fatalf("RabbitMQ does not end:\n%s", r.log.String())
	}
	r.startServer(t)
	r.ready(t)
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (r *rabbit) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// environment lets the script become the server, so that one process is to be
// ended, and keeps everything that RabbitMQ writes in the folder.
func (r *rabbit) environment() []string {
	in := func(name string) string { return filepath.Join(r.folder, name) }
	return []string{
		"HOME=" + r.folder,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		fmt.Sprintf("ERL_EPMD_PORT=%d", r.ports[2]),
		"RABBITMQ_ALLOW_INPUT=yes",
		fmt.Sprintf("RABBITMQ_NODENAME=entrepot%d@localhost", r.ports[0]),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", r.ports[1]),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_CONF_ENV_FILE=" + in("none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"),
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false",
	}
}

// start runs one of its processes until the test ends.
func (r *rabbit) start(t *testing.T, c *exec.Cmd) *part {
	t.Helper()
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = r.folder, &r.log, &r.log, 5*time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &part{c.Process, make(chan struct{})}
	go func() {
		_ = c.Wait() // it is killed, or was asked to end
		close(p.ended)
	}()
	t.Cleanup(func() {
		if err := p.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("ending %s: %v", c.Path, err)
		}
		<-p.ended
	})
	return p
}

// ready waits until RabbitMQ serves clients.
func (r *rabbit) ready(t *testing.T) {
	t.Helper()
	var last error
	if eventually(90*time.Second, func() bool {
		c, err := amqp.Dial("amqp://guest:guest@" + r.addr + "/")
		if last = err; err == nil {
			_ = c.Close()
		}
		return err == nil
	}) {
		return
	}
	t.Fatalf("RabbitMQ is not ready: %v\n%s", last, strings.TrimSpace(r.log.String()))
}
