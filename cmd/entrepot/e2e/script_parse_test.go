package e2e

import (
	"strings"
	"testing"
)

func TestScriptReadsAndWritesBack(t *testing.T) {
	text := strings.Join([]string{
		"# what it shows", "", "== first", "mqtt5 sub a # qos=1", "# a word", `stomp send s /topic/a "x y" note:"a: b"`,
		"expect a PUBLISH …", "expect b …", "", "== second [X-1]", "wait 5s", "",
	}, "\n")
	s, err := parseScript(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != text {
		t.Errorf("written back:\n%s", got)
	}
	send := s.sections[0].steps[2]
	if len(send.expect) != 2 || len(send.words) != 6 || !send.words[4].payload || send.words[5].text != "note:a: b" {
		t.Errorf("send: %+v", send)
	}
	o := readOptions(send.words[4:], ":")
	if o.payload != "x y" || o.pop("note", "") != "a: b" || o.done() != nil {
		t.Errorf("options: %+v", o)
	}
}

func TestScriptFaults(t *testing.T) {
	for _, text := range []string{"== a\nexpect x", "== a\nmqtt5 pub \"open"} {
		if _, err := parseScript(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
