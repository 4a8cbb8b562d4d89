package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// controlName is the file in a data directory that tells how to reach the
// broker which has it.
const controlName = "control.json"

// control is what that file says. Whoever can read it can read the data beside
// it: the token is the proof of that.
type control struct {
	HTTP  string `json:"http"`  // address: HOST:PORT or unix:/PATH
	Token string `json:"token"` // for commands
}

// writeControl leaves word in a data directory for its owner only.
func writeControl(dir, address, token string) error {
	text, err := json.Marshal(control{address, token})
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

// transport reaches the broker that is meant, whatever a URL says.
func (c control) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, address := "tcp", c.HTTP
		if path, unix := strings.CutPrefix(address, "unix:"); unix {
			network, address = "unix", path
		}
		return new(net.Dialer).DialContext(ctx, network, address)
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
