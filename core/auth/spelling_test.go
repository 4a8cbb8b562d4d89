package auth

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"entrepot/routing"
)

// oddLevel is a level of characters that some spelling has to escape.
func oddLevel(r *rand.Rand) string {
	pieces := []string{"a", "b", "A", ".", "/", "+", "#", "*", "%", "%2F", "%2E", "25", " ", "ä", "%u", "..", "$"}
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

// spelled is a topic as each protocol writes it, read again.
func spelled(t *testing.T, topic routing.Topic) (all []routing.Topic) {
	t.Helper()
	for _, s := range []routing.Spelling{routing.MQTT, routing.Dotted, routing.URI} {
		text, err := s.PrintTopic(topic)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.ParseTopic(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, again)
	}
	segments, err := routing.Path.PrintTopic(topic)
	if err != nil {
		t.Fatal(err)
	}
	again, err := routing.Path.ParseTopic(segments)
	if err != nil {
		t.Fatalf("%q: %v", segments, err)
	}
	return append(all, again)
}

// A rule that is written in canonical text decides alike on every spelling of a
// topic, and on no other one (faults 38 and 96). A million topics where
// ENTREPOT_SOAK is set.
func TestRulesInEverySpelling(t *testing.T) {
	n := 20_000
	if os.Getenv("ENTREPOT_SOAK") == "1" {
		n = 1_000_000
	}
	rules := mustRules(t, "allow anyone publish a/#", "deny anyone publish a/+/b", "allow user:ann publish a/%u/b",
		"deny anyone publish a/b/#", "allow anyone publish %2B/a", "deny anyone publish +/a/+", "allow anyone publish a%2Fb")
	r := rand.New(rand.NewPCG(7, 8))
	for range n {
		levels := make([]string, 1+r.IntN(4))
		for i := range levels {
			levels[i] = oddLevel(r)
		}
		topic, err := routing.NewTopic(levels...)
		if err != nil {
			t.Fatal(err)
		}
		want := rules.Decide(ann, Publish, Object{Kind: Topic, Name: topic.String()}) == nil
		for _, again := range spelled(t, topic) {
			if got := rules.Decide(ann, Publish, Object{Kind: Topic, Name: again.String()}) == nil; got != want {
				t.Fatalf("%q is allowed %v, spelled otherwise %v", levels, want, got)
			}
		}
	}
	// What is another topic, however alike it looks, is decided by itself.
	for name, allowed := range map[string]bool{
		"a/x": true, "A/x": false, "a%2Fx": false, "a%2Fb": true, "a.x": false, "/a/x": false, "a": true, "a/": true,
		"a/b/x": false, "a/b": false, "a/B/x": true, "a/%62/x": true, "a/ann/b": true, "a/Ann/b": false, "%2B/a": true, "x/a": false,
	} {
		if got := rules.Decide(ann, Publish, Object{Kind: Topic, Name: name}) == nil; got != allowed {
			t.Errorf("%s is allowed %v", name, got)
		}
	}
}
