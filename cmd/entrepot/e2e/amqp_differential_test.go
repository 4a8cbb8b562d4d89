package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// behaviour is a small program that shows what a broker does. A program that
// sees something else on Entrepot than on RabbitMQ is named in the README of
// adapters/amqp, under "Differences from RabbitMQ", with the reason; here are
// what it sees on Entrepot instead, of the lines that differ.
type behaviour struct {
	name string
	play func(*scene)
	here []string
	// users: on an Entrepot that knows its users, as RabbitMQ always does. It
	// stamps the user on every message.
	users bool
}

// differs says what is seen on Entrepot instead.
func differs(b behaviour, here ...string) behaviour {
	b.here = here
	return b
}

// behaviours is the whole table.
func behaviours() []behaviour {
	return slices.Concat(
		exchangeBehaviours(), exchangeConflicts(), routingBehaviours(), topicBehaviours(),
		queueBehaviours(), queueEnds(), queueConflicts(), queueArguments(), exclusiveBehaviours(),
		consumeBehaviours(), getBehaviours(), settleBehaviours(), requeueBehaviours(), windowBehaviours(), globalBehaviours(),
		publishBehaviours(), confirmBehaviours(), transactionBehaviours(), replyBehaviours(),
		contentBehaviours(), connectionBehaviours(), frameBehaviours(),
		deathBehaviours(), graveBehaviours(), limitBehaviours(), timeBehaviours(), expiryBehaviours(), lengthBehaviours(), priorityBehaviours(), activeBehaviours(),
	)
}

// TestBesideRabbitMQ runs the same programs on RabbitMQ and on Entrepot.
func TestBesideRabbitMQ(t *testing.T) {
	t.Parallel()
	needModules(t, "python3-pika", "pika")
	needPrograms(t, "amqp-tools", "amqp-consume")
	r := startRabbitMQ(t)
	binary := buildProgram(t)
	data := t.TempDir()
	memory, disk := launch(t, binary, "--memory"), launch(t, binary, "--data", data)
	users := launch(t, binary, "--memory", "--config", oneUser(t, "guest"))
	at := stands{r.addr, memory.addr("amqp"), users.addr("amqp"), disk.addr("amqp")}
	r.ready(t)
	t.Run("behaviours", func(t *testing.T) { sameBehaviours(t, at) })
	for _, b := range []struct{ name, addr string }{{"RabbitMQ", at.rabbit}, {"Entrepot", at.users}} {
		t.Run("patterns on "+b.name, func(t *testing.T) { patternsOf(t, "amqp://guest:guest@"+b.addr+"/") })
		t.Run("pika on "+b.name, func(t *testing.T) { runScript(t, "with_pika.py", "AMQP="+b.addr) })
		t.Run("librabbitmq on "+b.name, func(t *testing.T) { runScript(t, "with_amqp_tools.py", "AMQP="+b.addr) })
	}
	surviveRestart(t, at.rabbit, at.disk, func() (string, string) {
		disk.stop(t)
		disk = launch(t, binary, "--data", data)
		r.restart(t)
		return r.addr, disk.addr("amqp")
	})
	for _, p := range []*program{memory, disk, users} {
		p.stop(t)
	}
}

// stands are the addresses of the brokers: RabbitMQ, and Entrepot as it is
// without settings, with users, and with durable queues on disk.
type stands struct{ rabbit, memory, users, disk string }

// oneUser writes settings that know one user, whose password is the name, and
// returns the file.
func oneUser(t *testing.T, name string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users, settings := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "settings.toml")
	for file, text := range map[string]string{users: name + ":" + string(hash) + "\n", settings: fmt.Sprintf("[auth]\nusers = %q\n", users)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return settings
}

// sameBehaviours compares everything that the clients of the small programs
// see. A difference that stays is named where users read of it.
func sameBehaviours(t *testing.T, at stands) {
	readme, err := os.ReadFile("../../../adapters/amqp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := behaviours()
	for i, v := range views(all, at) {
		t.Run(all[i].name, func(t *testing.T) { all[i].compare(t, v) })
		if all[i].here != nil && !strings.Contains(string(readme), "`"+all[i].name+"`") {
			t.Errorf("the README of adapters/amqp does not name the difference %q", all[i].name)
		}
	}
}

// view is what a behaviour shows on each broker.
type view struct{ rabbit, entrepot, disk []string }

// views plays all behaviours, many at once: most of their time they wait.
func views(all []behaviour, at stands) []view {
	const atOnce = 12
	vs := make([]view, len(all))
	places := make(chan struct{}, atOnce)
	var playing sync.WaitGroup
	for i, b := range all {
		places <- struct{}{}
		playing.Go(func() {
			defer func() { <-places }()
			name, here := fmt.Sprintf("b%d~", i), at.memory
			if b.users {
				here = at.users
			}
			var each sync.WaitGroup
			each.Go(func() { vs[i].rabbit = playOn(at.rabbit, name, false, b.play) })
			each.Go(func() { vs[i].entrepot = playOn(here, name, false, b.play) })
			if !b.users {
				each.Go(func() { vs[i].disk = playOn(at.disk, name, true, b.play) })
			}
			each.Wait()
		})
	}
	playing.Wait()
	return vs
}

// compare compares what was seen with what the table says.
func (b behaviour) compare(t *testing.T, v view) {
	want := v.rabbit
	if cut := slices.IndexFunc(want, func(l string) bool { return strings.HasPrefix(l, "CUT") }); cut >= 0 || len(want) == 0 {
		t.Fatalf("RabbitMQ does not play along:\n  %s", strings.Join(want, "\n  "))
	}
	same(t, "Entrepot", want, v.entrepot, b.here)
	if !b.users {
		same(t, "Entrepot on disk", asTransient(want), asTransient(v.disk), b.here)
	}
}

// asTransient are lines that do not tell a persistent message from another.
func asTransient(lines []string) []string {
	return strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), " mode=2", ""), "\n")
}

// same compares lines of RabbitMQ with those of another; here is what is to
// differ.
func same(t *testing.T, name string, want, got, here []string) {
	theirs, ours := differing(want, got)
	if slices.Equal(ours, here) {
		return
	}
	if len(here) > 0 {
		t.Errorf("what differs is not what the table says:\n  %s", strings.Join(here, "\n  "))
	}
	t.Errorf("only RabbitMQ:\n  %s\nonly %s:\n  %s", strings.Join(theirs, "\n  "), name, strings.Join(ours, "\n  "))
}

// differing are the lines, of two lists, that are not at the same place in
// both. Nothing differs when both are empty.
func differing(a, b []string) (onlyA, onlyB []string) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			onlyB = append(onlyB, b[i])
		case i >= len(b):
			onlyA = append(onlyA, a[i])
			onlyB = append(onlyB, "(nothing)")
		case a[i] != b[i]:
			onlyA, onlyB = append(onlyA, a[i]), append(onlyB, b[i])
		}
	}
	return onlyA, onlyB
}
