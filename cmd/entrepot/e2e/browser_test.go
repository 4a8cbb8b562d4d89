package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	browsers = "../../../testdata/browser"
	chromium = "/usr/bin/chromium"
)

// TestBrowsers runs the web clients of testdata/browser in a headless Chromium
// against the built program, and uses the live page. SCREENSHOTS names a
// folder for pictures of it.
func TestBrowsers(t *testing.T) {
	needBrowser(t)
	p := startProgram(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "run.mjs")
	cmd.Dir = browsers
	cmd.Env = append(os.Environ(), "HTTP="+p.addr("http"), "MQTT="+p.addr("mqtt"), "STOMP="+p.addr("stomp"), "CHROMIUM="+chromium)
	runChecks(t, cmd)
	p.stop(t)
}

// needBrowser skips the test where there is no browser, or where nobody
// fetched the clients; continuous integration has to have them.
func needBrowser(t *testing.T) {
	t.Helper()
	const remedy = "apt-get install chromium nodejs npm; npm install --no-package-lock --prefix testdata/browser"
	_, node := exec.LookPath("node")
	_, browser := os.Stat(chromium)
	_, clients := os.Stat(filepath.Join(browsers, "node_modules", "playwright-core"))
	switch {
	case node == nil && browser == nil && clients == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("missing: node (%v), Chromium (%v) or the clients (%v): %s", node, browser, clients, remedy)
	default:
		t.Skipf("missing: node, Chromium or the clients: %s", remedy)
	}
}
