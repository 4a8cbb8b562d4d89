package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// broker is the broker's process.
type broker struct {
	cmd              *exec.Cmd
	folder           string
	tls, plain, http string
	once             sync.Once
}

// raiseFiles asks for so many descriptors, for this process and those that it
// starts; without the right to it, for as many as are allowed.
func raiseFiles(n uint64) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur >= n {
		return
	}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: max(n, l.Max)}) != nil {
		fmt.Fprintf(os.Stderr, "storm: only %d descriptors are allowed, which bounds the clients\n", l.Max)
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Max, Max: l.Max})
	}
}

func startBroker(o *options) (*broker, error) {
	folder, err := os.MkdirTemp("", "storm-")
	if err != nil {
		return nil, err
	}
	b := &broker{folder: folder}
	program := o.broker
	if program == "" {
		program = filepath.Join(folder, "entrepot")
		build := exec.Command("go", "build", "-o", program, "./cmd/entrepot")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("build: %w", err)
		}
	}
	if err := b.configure(); err != nil {
		return nil, err
	}
	b.cmd = exec.Command(program, "serve", "--config", filepath.Join(folder, "storm.toml"),
		"--stomp", "off", "--amqp", "off", "--coap", "off")
	log, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if err := b.awaitReady(bufio.NewReader(log)); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// configure writes settings and a certificate of its own.
func (b *broker) configure() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certFile, keyFile := filepath.Join(b.folder, "cert.pem"), filepath.Join(b.folder, "key.pem")
	settings := fmt.Sprintf(`[mqtt]
listen = ["tls:127.0.0.1:0", "127.0.0.1:0"]
[http]
listen = ["127.0.0.1:0"]
[store]
data = %q
[tls]
certs = [%q]
keys = [%q]
[log]
level = "info"
`, filepath.Join(b.folder, "data"), certFile, keyFile)
	for file, content := range map[string][]byte{
		certFile:                              pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		keyFile:                               pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		filepath.Join(b.folder, "storm.toml"): []byte(settings),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady finds out where the broker listens. What it logs later is passed on,
// warnings only.
func (b *broker) awaitReady(log *bufio.Reader) error {
	listening := regexp.MustCompile(`msg=listening protocol=(\S+).* address=\S*?(127\.0\.0\.1:\d+)`)
	for {
		line, err := log.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the broker ended: %w", err)
		}
		if m := listening.FindStringSubmatch(line); m != nil {
			switch {
			case m[1] == "http":
				b.http = "http://" + m[2]
			case b.tls == "":
				b.tls = m[2]
			default:
				b.plain = m[2]
			}
		}
		if strings.Contains(line, "msg=ready") {
			go passOn(log)
			return nil
		}
	}
}

func passOn(log *bufio.Reader) {
	for n := 0; ; {
		line, err := log.ReadString('\n')
		if err != nil {
			return
		}
		if !strings.Contains(line, "level=INFO") && n < 20 {
			n++
			fmt.Fprint(os.Stderr, "broker: ", line)
		}
	}
}

func (b *broker) metrics() string {
	r, err := http.Get(b.http + "/metrics")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// awaitConnections waits until only so many are left.
func (b *broker) awaitConnections(n int, most time.Duration) error {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); rest(window) {
		if strings.Contains(b.metrics(), fmt.Sprintf("entrepot_connections{protocol=\"mqtt\"} %d\n", n)) {
			return nil
		}
	}
	return fmt.Errorf("the broker still has connections of clients that are gone")
}

// refused are the limits that turned somebody away.
func (b *broker) refused() (lines []string) {
	for line := range strings.Lines(b.metrics()) {
		if strings.HasPrefix(line, "entrepot_connections_refused_total{") && !strings.HasSuffix(line, " 0\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// peak is the most memory that the process had.
func (b *broker) peak() int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n >> 10
}

func (b *broker) stop() {
	b.once.Do(func() {
		if b.cmd != nil && b.cmd.Process != nil {
			_ = b.cmd.Process.Signal(syscall.SIGTERM)
			_ = b.cmd.Wait()
		}
		_ = os.RemoveAll(b.folder)
	})
}
