package e2e

import "testing"

// TestCelery runs Celery, unchanged, with real workers.
func TestCelery(t *testing.T) {
	needModules(t, "python3-celery", "celery")
	withEveryProtocol(t, "with_celery.py")
}

// TestCrossingAMQP runs AMQP clients at one end and others at the other.
func TestCrossingAMQP(t *testing.T) { withEveryProtocol(t, "crossing_amqp.py") }

// TestPoison has workers of each protocol die of one message.
// It shows fault 80.
func TestPoison(t *testing.T) { withEveryProtocol(t, "poison.py") }

// withEveryProtocol runs a script against a program of its own, beside the
// other scripts.
func withEveryProtocol(t *testing.T, script string) {
	t.Parallel()
	needClients(t)
	needModules(t, "python3-pika", "pika")
	p := startProgram(t)
	runScript(t, script, "MQTT="+p.addr("mqtt"), "STOMP="+p.addr("stomp"), "AMQP="+p.addr("amqp"))
	p.stop(t)
	if t.Failed() {
		t.Logf("broker's log:\n%s", p.log())
	}
}
