package e2e

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/adapters/mqtt"
	"entrepot/adapters/stomp"
	rights "entrepot/core/auth"
)

var update = flag.Bool("update", false, "rewrite what the scenarios expect")

const scenarios = "../../../testdata/scenarios"

// actor is a client of a scenario.
type actor interface {
	do(verb string, words []word) error
	inbox() *inbox
	plainSuccess(verb string, e event) bool
	answered(verb string) bool
}

// stage is where one section is played.
type stage struct {
	broker *broker
	actors map[string]actor
	order  []string // names, as they came
	made   map[string]string
}

// madeName is a queue's name that the broker made up. Scripts write it with a
// "*", which is the last one of that kind that anybody got.
var madeName = regexp.MustCompile(`(stomp-reply-|amq\.rabbitmq\.reply-to\.|amq\.gen-|\$reply-|(?:lease|reply) location=)[A-Z2-7]{26}`)

// hide puts "*" in place of what the broker made up, and remembers it.
func (st *stage) hide(line string) string {
	return madeName.ReplaceAllStringFunc(line, func(name string) string {
		kind := name[:len(name)-26] + "*"
		st.made[kind] = name
		return kind
	})
}

// reveal undoes hide in what a client is told to do.
func (st *stage) reveal(words []word) {
	for i := range words {
		for kind, name := range st.made {
			words[i].text = strings.ReplaceAll(words[i].text, kind, name)
		}
	}
}

// TestScenarios plays testdata/scenarios/*.txt, each section in a bubble of
// its own: after every line all goroutines have come to rest, so what a client
// has not got by then does not come.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scenarios, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in %s: %v", scenarios, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseScript(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, sec := range s.sections {
				t.Run(sec.title, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { play(t, sec) })
				})
			}
			if *update && !t.Failed() {
				if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// play carries out a section's lines and compares what the clients got.
func play(t *testing.T, sec *section) {
	set, steps, err := readSettings(sec.steps)
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{broker: newBroker(set), actors: map[string]actor{}, made: map[string]string{}}
	defer st.leave(t)
	for _, step := range steps {
		if len(step.words) == 0 {
			continue
		}
		got, err := st.act(step)
		if err != nil {
			t.Fatalf("line %d: %s: %v", step.line, step.text, err)
		}
		if *update {
			step.expect = got
		} else if !slices.Equal(got, step.expect) {
			t.Errorf("line %d: %s\n got:\n  %s\n want:\n  %s", step.line, step.text,
				strings.Join(got, "\n  "), strings.Join(step.expect, "\n  "))
		}
	}
}

// readSettings takes the lines "with SETTING" off a section's beginning.
func readSettings(steps []*step) (settings, []*step, error) {
	set := settings{mqtt: mqtt.DefaultConfig(), stomp: stomp.DefaultConfig()}
	for len(steps) > 0 && len(steps[0].words) == 2 && steps[0].words[0].text == "with" {
		if err := set.set(steps[0].words[1].text); err != nil {
			return set, nil, err
		}
		steps = steps[1:]
	}
	return set, steps, nil
}

// act does one line, waits until nothing moves, and returns what came of it.
func (st *stage) act(s *step) ([]string, error) {
	first := s.words[0].text
	if first == "wait" {
		return st.wait(s.words[1:])
	}
	if first == "rules" {
		return st.rules(s.words[1:])
	}
	if first == "users" {
		return st.users(s.words[1:])
	}
	if len(s.words) < 3 {
		return nil, fmt.Errorf("a line is PROTOCOL VERB CLIENT …")
	}
	verb, name := s.words[1].text, s.words[2].text
	a, err := st.actor(first, verb, name)
	if err != nil {
		return nil, err
	}
	st.reveal(s.words[3:])
	if err := a.do(verb, s.words[3:]); err != nil {
		return nil, err
	}
	synctest.Wait()
	return st.news(name, verb), nil
}

func (st *stage) wait(words []word) ([]string, error) {
	if len(words) != 1 {
		return nil, fmt.Errorf("wait how long?")
	}
	d, err := time.ParseDuration(words[0].text)
	if err != nil {
		return nil, err
	}
	time.Sleep(d)
	synctest.Wait()
	return st.news("", ""), nil
}

// rules has the broker decide by these from now on, each a word in quotes.
func (st *stage) rules(words []word) ([]string, error) {
	var text []string
	for _, w := range words {
		text = append(text, w.text)
	}
	r, err := rights.ParseRules([]byte(strings.Join(text, "\n")))
	if err != nil {
		return nil, err
	}
	st.broker.core.SetPolicy(r.Decide)
	synctest.Wait()
	return st.news("", ""), nil
}

// actor finds a client, or makes it at its first connect.
func (st *stage) actor(protocol, verb, name string) (actor, error) {
	if a, ok := st.actors[name]; ok {
		return a, nil
	}
	if verb != "connect" {
		return nil, fmt.Errorf("%s has not connected", name)
	}
	var a actor
	switch protocol {
	case "mqtt3", "mqtt5":
		version := byte(4)
		if protocol == "mqtt5" {
			version = 5
		}
		a = &mqttActor{name: name, dial: st.broker.dialMQTT, client: &mqttClient{inbox: &inbox{}, version: version}}
	case "stomp", "stomp1.0", "stomp1.1":
		version := strings.TrimPrefix(protocol, "stomp")
		if version == "" {
			version = "1.2"
		}
		a = &stompActor{name: name, dial: st.broker.dialSTOMP, client: &stompClient{inbox: &inbox{}, version: version}}
	case "amqp":
		a = &amqpActor{name: name, dial: st.broker.dialAMQP, box: &inbox{}}
	case "coap":
		a = &coapActor{name: name, broker: st.broker, box: &inbox{}}
	case "wamp":
		a = &wampActor{name: name, dial: st.broker.dialWAMP, client: newWAMPClient()}
	default:
		return nil, fmt.Errorf("no protocol %q", protocol)
	}
	st.actors[name] = a
	st.order = append(st.order, name)
	return a, nil
}

// news are the lines for what all clients got, in the order in which they
// first connected. The plain success of what was just done is left out; its
// absence is not.
func (st *stage) news(doer, verb string) []string {
	var lines []string
	for _, name := range st.order {
		a := st.actors[name]
		events := a.inbox().take()
		if name == doer && a.answered(verb) {
			plain := func(e event) bool { return a.plainSuccess(verb, e) }
			if i := slices.IndexFunc(events, plain); i >= 0 {
				events = slices.Delete(events, i, i+1)
			} else if len(events) == 0 {
				lines = append(lines, "expect "+name+" silence")
			}
		}
		for _, e := range events {
			lines = append(lines, "expect "+name+" "+st.hide(e.String()))
		}
	}
	return lines
}

// leave closes what is open and ends the broker.
func (st *stage) leave(t *testing.T) {
	for _, name := range st.order {
		switch a := st.actors[name].(type) {
		case *mqttActor:
			closePipe(a.client.conn)
		case *stompActor:
			closePipe(a.client.conn)
		case *amqpActor:
			a.leave()
		case *wampActor:
			closePipe(a.client.conn)
		case *coapActor:
			if a.link != nil {
				a.link.close()
			}
		}
	}
	synctest.Wait()
	st.broker.stop(t)
}

// closePipe closes a connection that may be closed, or was never opened.
func closePipe(c net.Conn) {
	if c != nil {
		_ = c.Close()
	}
}
