package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const node = "../../../testdata/node"

// TestNodeCoAP runs node-coap against the built program.
func TestNodeCoAP(t *testing.T) {
	needNode(t)
	p := startProgram(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "coap.mjs")
	cmd.Dir = node
	cmd.Env = append(os.Environ(), "COAP="+p.addr("coap"), "MQTT="+p.addr("mqtt"))
	runChecks(t, cmd)
	p.stop(t)
}

// needNode skips the test where Node.js is missing or nobody fetched the
// clients; continuous integration has to have them.
func needNode(t *testing.T) {
	t.Helper()
	const remedy = "apt-get install nodejs npm; npm install --no-package-lock --prefix testdata/node"
	_, program := exec.LookPath("node")
	_, clients := os.Stat(filepath.Join(node, "node_modules", "coap"))
	switch {
	case program == nil && clients == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("missing: node (%v) or the clients (%v): %s", program, clients, remedy)
	default:
		t.Skipf("missing: node or the clients: %s", remedy)
	}
}
