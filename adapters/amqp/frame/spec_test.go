package frame

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// specLines are the lines of the published table that begin with a word.
func specLines(t *testing.T, word string) [][]string {
	text, err := os.ReadFile("../../../testdata/amqp/spec.txt")
	if err != nil {
		t.Fatal(err)
	}
	var found [][]string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == word {
			found = append(found, f[1:])
		}
	}
	if len(found) == 0 {
		t.Fatalf("nothing of %s in the table", word)
	}
	return found
}

// [AMQP-1.2] the constants, and which errors are hard.
func TestConstants(t *testing.T) {
	own := map[string]int{"frame-method": MethodKind, "frame-header": HeaderKind, "frame-body": BodyKind,
		"frame-heartbeat": HeartbeatKind, "frame-min-size": MinMax, "frame-end": endOctet}
	for _, c := range specLines(t, "constant") {
		want, err := strconv.Atoi(c[1])
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := own[c[0]]; ok {
			if got != want {
				t.Errorf("%s is %d, want %d", c[0], got, want)
			}
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(c[0], "-", "_"))
		if got := Code(want); got.String() != name || got.Hard() != (len(c) > 2 && c[2] == "hard") {
			t.Errorf("code %d is %s, hard %v; want %v", want, got, got.Hard(), c)
		}
	}
	if len(codes) != len(specLines(t, "constant"))-len(own) {
		t.Errorf("%d codes", len(codes))
	}
}

// [AMQP-1.3] the methods with their fields.
func TestCatalogue(t *testing.T) {
	lines := specLines(t, "method")
	for _, l := range lines {
		m, ok := MethodNamed(l[0])
		if !ok || m.String() != l[0] || !m.Known() {
			t.Errorf("no method %s", l[0])
			continue
		}
		if strconv.Itoa(int(m.Class())) != l[1] || strconv.Itoa(int(m.ID())) != l[2] {
			t.Errorf("%s is %d.%d, want %v", m, m.Class(), m.ID(), l[1:3])
		}
		var fields []string
		for _, f := range m.Fields() {
			fields = append(fields, f.Name+":"+f.Type)
		}
		if got, want := strings.Join(fields, " "), strings.Join(l[3:], " "); got != want {
			t.Errorf("%s carries %s, want %s", m, got, want)
		}
	}
	if len(catalogue) != len(lines) {
		t.Errorf("%d methods, want %d", len(catalogue), len(lines))
	}
	if Method(7).Known() || Method(60<<16|7).String() != "method 7 of class 60" {
		t.Error("a method that is none has a name")
	}
}

// [AMQP-1.8] the order of the properties in a content header.
func TestPropertyFlags(t *testing.T) {
	flags := map[string]uint16{"content-type": ContentType, "content-encoding": ContentEncoding, "headers": HeaderTable,
		"delivery-mode": DeliveryMode, "priority": Priority, "correlation-id": CorrelationID, "reply-to": ReplyTo,
		"expiration": Expiration, "message-id": MessageID, "timestamp": Timestamp, "type": Type, "user-id": UserID,
		"app-id": AppID, "reserved": ClusterID}
	for i, l := range specLines(t, "property") {
		name, _, _ := strings.Cut(l[0], ":")
		if flags[name] != 1<<(15-i) {
			t.Errorf("%s is %#x", name, flags[name])
		}
	}
	var all uint16
	for _, f := range flags {
		all |= f
	}
	if all != ^Unknown {
		t.Errorf("flags %#x and %#x unknown", all, Unknown)
	}
}
