package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	userfile "entrepot/core/auth"
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
	runBrowser(t, p, "run.mjs")
	p.stop(t)
}

// TestBrowserLogIn logs in at the live page and out again (faults 61, 62 and
// 64).
func TestBrowserLogIn(t *testing.T) {
	needBrowser(t)
	users := filepath.Join(t.TempDir(), "users")
	const password = "p:w <b>"
	if _, err := userfile.ChangeUser(users, "ann", userfile.Change{Password: password}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENTREPOT_AUTH_USERS", users)
	t.Setenv("ENTREPOT_AUTH_DENY_PUBLISH", "cmd/#")
	p := startProgram(t)
	runBrowser(t, p, "users.mjs", "NAME=ann", "PASSWORD="+password)
	p.stop(t)
}

func runBrowser(t *testing.T, p *program, script string, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", script)
	cmd.Dir = browsers
	cmd.Env = append(os.Environ(), "HTTP="+p.addr("http"), "MQTT="+p.addr("mqtt"), "STOMP="+p.addr("stomp"), "CHROMIUM="+chromium)
	cmd.Env = append(cmd.Env, env...)
	runChecks(t, cmd)
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
