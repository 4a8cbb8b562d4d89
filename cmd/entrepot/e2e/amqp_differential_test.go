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
	needModules(t, "python3-pika", "pika")
	r := startRabbitMQ(t)
	binary := buildProgram(t)
	p := launch(t, binary, "--memory")
	strict := launch(t, binary, "--memory", "--config", oneUser(t, "guest"))
	r.ready(t)
	t.Run("behaviours", func(t *testing.T) { sameBehaviours(t, r.addr, p.addr("amqp"), strict.addr("amqp")) })
	for _, b := range []struct{ name, addr string }{{"RabbitMQ", r.addr}, {"Entrepot", strict.addr("amqp")}} {
		t.Run("patterns on "+b.name, func(t *testing.T) { patternsOf(t, "amqp://guest:guest@"+b.addr+"/") })
		t.Run("pika on "+b.name, func(t *testing.T) { runScript(t, "with_pika.py", "AMQP="+b.addr) })
	}
	p.stop(t)
	strict.stop(t)
}

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
func sameBehaviours(t *testing.T, rabbit, entrepot, strict string) {
	readme, err := os.ReadFile("../../../adapters/amqp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := behaviours()
	for i, v := range views(all, rabbit, entrepot, strict) {
		t.Run(all[i].name, func(t *testing.T) { all[i].compare(t, v) })
		if all[i].here != nil && !strings.Contains(string(readme), "`"+all[i].name+"`") {
			t.Errorf("the README of adapters/amqp does not name the difference %q", all[i].name)
		}
	}
}

// view is what a behaviour shows on each broker.
type view struct{ rabbit, entrepot []string }

// views plays all behaviours, many at once: most of their time they wait.
func views(all []behaviour, rabbit, entrepot, strict string) []view {
	const atOnce = 12
	vs := make([]view, len(all))
	places := make(chan struct{}, atOnce)
	var playing sync.WaitGroup
	for i, b := range all {
		places <- struct{}{}
		playing.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { vs[i].rabbit = playOn(rabbit, fmt.Sprintf("r%d~", i), b.play) })
			addr := entrepot
			if b.users {
				addr = strict
			}
			both.Go(func() { vs[i].entrepot = playOn(addr, fmt.Sprintf("e%d~", i), b.play) })
			both.Wait()
			<-places
		})
	}
	playing.Wait()
	return vs
}

// compare compares what was seen with what the table says.
func (b behaviour) compare(t *testing.T, v view) {
	want, got := v.rabbit, v.entrepot
	if strings.Contains(strings.Join(got, " "), "x-max-priority: not supported") || strings.Contains(b.name, "x-max-priority") {
		t.Skip("no priorities yet")
	}
	if cut := slices.IndexFunc(want, func(l string) bool { return strings.HasPrefix(l, "CUT") }); cut >= 0 || len(want) == 0 {
		t.Fatalf("RabbitMQ does not play along:\n  %s", strings.Join(want, "\n  "))
	}
	theirs, ours := differing(want, got)
	if slices.Equal(ours, b.here) {
		return
	}
	if len(b.here) > 0 {
		t.Errorf("what differs is not what the table says:\n  %s", strings.Join(b.here, "\n  "))
	}
	t.Errorf("only RabbitMQ:\n  %s\nonly Entrepot:\n  %s", strings.Join(theirs, "\n  "), strings.Join(ours, "\n  "))
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
