package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"entrepot/adapters"
)

// controlName is the file in a data directory that tells how to reach the
// broker which has it.
const controlName = "control.json"

// control is what that file says. Whoever can read it can read the data beside
// it: the token is the proof of that.
type control struct {
	HTTP  string `json:"http"`          // address: HOST:PORT or unix:/PATH
	TLS   bool   `json:"tls,omitempty"` // is spoken there
	Token string `json:"token"`         // for commands
}

// maxAnswer bounds what is read of a broker's answer, in bytes.
const maxAnswer = 64 << 10

// reachable chooses where a command on this machine can ask.
func reachable(bound []socket) (at control, ok bool) {
	for _, s := range bound {
		switch {
		case s.Proxy || s.Transport.Encrypted() && s.ClientAuth == adapters.AuthRequire:
		case !s.Transport.Encrypted():
			return control{HTTP: shown(s.at)}, true
		case !ok:
			at, ok = control{HTTP: shown(s.at), TLS: true}, true
		}
	}
	return at, ok
}

// command has a broker do something, which is called what: it posts a request to
// path and reads the answer into another value.
func command(ctx context.Context, at link, what, path string, request, into any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer at.transport.CloseIdleConnections()
	resp, err := at.send(ctx, http.MethodPost, path, body)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist):
		return errors.New("the broker is not running any more: it was ended without a farewell")
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the broker stopped before the %s was complete", what)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s: answer: %w", what, err)
	}
	return readAnswer(what, resp, text, into)
}

// readAnswer reads what a broker answered to a command, or makes its refusal an
// error.
func readAnswer(what string, resp *http.Response, text []byte, into any) error {
	var refusal struct {
		Error string `json:"error"`
	}
	err := json.Unmarshal(text, &refusal)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK:
		return json.Unmarshal(text, into)
	case err == nil && refusal.Error != "":
		return errors.New(refusal.Error)
	}
	return fmt.Errorf("%s: the broker answers %s: %.200s", what, resp.Status, strings.TrimSpace(string(text)))
}

// String shows no token, whatever prints it.
func (c control) String() string { return "broker at " + c.HTTP }

// GoString implements fmt.GoStringer.
func (c control) GoString() string { return c.String() }

// writeControl leaves word in a data directory for its owner only.
func writeControl(dir string, at control) error {
	text, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("control file: %w", err)
	}
	name := filepath.Join(dir, controlName)
	// One that a killed broker left may be open to others.
	if err := dropControl(dir); err != nil {
		return err
	}
	if err := os.WriteFile(name, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("control file: %w", err)
	}
	return nil
}

// transport reaches the broker that is meant, whatever a URL says. Its address is
// this machine's own, so its certificate has nothing to prove.
func (c control) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, address := "tcp", c.HTTP
		if path, unix := strings.CutPrefix(address, "unix:"); unix {
			network, address = "unix", path
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil || !c.TLS {
			return conn, err
		}
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), nil
	}}
}

func dropControl(dir string) error {
	if err := os.Remove(filepath.Join(dir, controlName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control file: %w", err)
	}
	return nil
}

// readControl finds the broker that has a data directory.
func readControl(dir string) (control, error) {
	var c control
	text, err := os.ReadFile(filepath.Join(dir, controlName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(dir); err != nil {
			return c, fmt.Errorf("no data directory %s: name the broker's with --data; one that runs with --memory has none", dir)
		}
		return c, fmt.Errorf("no broker to ask runs on data directory %s: it is not running, or has its HTTP off", dir)
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, fmt.Errorf("control file: %w", err)
	}
	return c, nil
}

// newToken is a secret that nobody guesses.
func newToken() string { return rand.Text() }
