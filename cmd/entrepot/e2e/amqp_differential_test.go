package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// behaviour is a small program that shows what a broker does. A program that
// sees something else on Entrepot than on RabbitMQ is named in the README of
// adapters/amqp, under "Differences from RabbitMQ", with the reason; here are
// what it sees on Entrepot instead, of the lines that differ.
type behaviour struct {
	name string
	play func(*scene)
	here []string
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

// TestSameAsRabbitMQ runs the same small programs on RabbitMQ and on Entrepot
// and compares everything that their clients see.
func TestSameAsRabbitMQ(t *testing.T) {
	r := startRabbitMQ(t)
	if help, _ := exec.Command("go", "run", "entrepot/cmd/entrepot", "serve", "--help").CombinedOutput(); !strings.Contains(string(help), "--amqp") {
		t.Skip("no AMQP yet")
	}
	p := startProgram(t)
	r.ready(t)
	readme, err := os.ReadFile("../../../adapters/amqp/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range views(behaviours(), r.addr, p.addr("amqp")) {
		b := behaviours()[i]
		t.Run(b.name, func(t *testing.T) { b.compare(t, v) })
		if b.here != nil && !strings.Contains(string(readme), "`"+b.name+"`") {
			t.Errorf("the README of adapters/amqp does not name the difference %q", b.name)
		}
	}
	p.stop(t)
}

// view is what a behaviour shows on each broker.
type view struct{ rabbit, entrepot []string }

// views plays all behaviours, many at once: most of their time they wait.
func views(all []behaviour, rabbit, entrepot string) []view {
	const atOnce = 12
	vs := make([]view, len(all))
	places := make(chan struct{}, atOnce)
	var playing sync.WaitGroup
	for i, b := range all {
		places <- struct{}{}
		playing.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { vs[i].rabbit = playOn(rabbit, fmt.Sprintf("r%d~", i), b.play) })
			both.Go(func() { vs[i].entrepot = playOn(entrepot, fmt.Sprintf("e%d~", i), b.play) })
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
	t.Errorf("only RabbitMQ:\n  %s\nonly Entrepot:\n  %s\nall of RabbitMQ:\n  %s", strings.Join(theirs, "\n  "),
		strings.Join(ours, "\n  "), strings.Join(want, "\n  "))
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
