package routing

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The table of the contract between the protocols: one topic, four spellings.
func TestSpellingTable(t *testing.T) {
	for _, c := range []struct {
		mqtt, dotted, uri string
		path              []string
	}{
		{"plant/7/temp", "plant.7.temp", "plant.7.temp", []string{"plant", "7", "temp"}},
		{"spBv1.0/g1/DDATA", "spBv1%2E0.g1.DDATA", "spBv1%2E0.g1.DDATA", []string{"spBv1.0", "g1", "DDATA"}},
		{"/a//b", ".a..b", "%00.a.%00.b", []string{"", "a", "", "b"}},
		{"com/myapp/on news", "com.myapp.on news", "com.myapp.on%20news", []string{"com", "myapp", "on news"}},
		{"a/%2B/b", "a.+.b", "a.+.b", []string{"a", "+", "b"}},
		// Escapes: each code of each spelling.
		{"a%2Fb", "a/b", "a/b", []string{"a/b"}},
		{"a%23", "a#", "a%23", []string{"a#"}},
		{"*/%23/>", "*.#.>", "*.%23.>", []string{"*", "#", ">"}},
		{"./..", "%2E.%2E%2E", "%2E.%2E%2E", []string{"%2E", "%2E%2E"}},
		{".../a", "%2E%2E%2E.a", "%2E%2E%2E.a", []string{"...", "a"}},
		{"a\u00a0b/\u3000", "a\u00a0b.\u3000", "a%C2%A0b.%E3%80%80", []string{"a\u00a0b", "\u3000"}},
		{"%00", "", "%00", []string{""}},
		{"/", ".", "%00.%00", []string{"", ""}},
		// Levels that look like codes are kept apart.
		{"%252F", "%2F", "%2F", []string{"%2F"}},
		{"%25252F", "%252F", "%252F", []string{"%252F"}},
		{"x%2Ey", "x%252Ey", "x%252Ey", []string{"x%2Ey"}},
		{"%2E", "%252E", "%252E", []string{"%252E"}},
		{"%2E%2E", "%252E%252E", "%252E%252E", []string{"%252E%2E"}},
		{"%2500", "%00", "%2500", []string{"%00"}},
		{"%00/a", "%00.a", "%2500.a", []string{"%00", "a"}},
		{"%252500", "%2500", "%252500", []string{"%2500"}},
		{"%20", "%20", "%2520", []string{"%20"}},
		{"%C2%A0", "%C2%A0", "%25C2%A0", []string{"%C2%A0"}},
		{"%2A", "%2A", "%2A", []string{"%2A"}},
		// Every other '%' is an ordinary character.
		{"100%/%41/%2f/%25/%2525", "100%.%41.%2f.%25.%2525", "100%.%41.%2f.%25.%2525", []string{"100%", "%41", "%2f", "%25", "%2525"}},
		{"%%2F", "%/", "%/", []string{"%/"}},
		{"%25%2F", "%25/", "%25/", []string{"%25/"}},
	} {
		topic, err := MQTT.ParseTopic(c.mqtt)
		if err != nil {
			t.Fatal(err)
		}
		spelled(t, "AMQP", Dotted, topic, c.dotted)
		spelled(t, "WAMP", URI, topic, c.uri)
		if got, err := Path.PrintTopic(topic); !slices.Equal(got, c.path) || err != nil {
			t.Errorf("%s in CoAP is %q, %v", c.mqtt, got, err)
		}
		if got, err := Path.ParseTopic(c.path); got != topic || err != nil {
			t.Errorf("CoAP %q is %q, %v", c.path, got, err)
		}
	}
}

// spelled looks at a topic and its text from both sides.
func spelled(t *testing.T, protocol string, s Spelling, topic Topic, text string) {
	t.Helper()
	if got, err := s.PrintTopic(topic); got != text || err != nil {
		t.Errorf("%s in %s is %q, %v", topic, protocol, got, err)
	}
	if got, err := s.ParseTopic(text); got != topic || err != nil {
		t.Errorf("%s %s is %q, %v", protocol, text, got, err)
	}
}

// The addresses of queues and exchanges in the contract: a name is one level.
func TestNamesAreOneLevel(t *testing.T) {
	for _, c := range []struct {
		levels    []string
		mqtt, uri string
	}{
		{[]string{"$queue", "orders"}, "$queue/orders", "$queue.orders"},
		{[]string{"$queue", "a.b"}, "$queue/a.b", "$queue.a%2Eb"},
		{[]string{"$queue", "a/b"}, "$queue/a%2Fb", "$queue.a/b"},
		{[]string{"$exchange", "x", "k"}, "$exchange/x/k", "$exchange.x.k"},
	} {
		topic := mustTopic(t, c.levels...)
		uri, err := URI.PrintTopic(topic)
		if topic.String() != c.mqtt || uri != c.uri || err != nil {
			t.Errorf("%q is %s in MQTT and %s in WAMP, %v", c.levels, topic, uri, err)
		}
	}
}

func TestFilterSpellings(t *testing.T) {
	for _, c := range []struct{ canonical, mqtt, dotted, uri string }{
		{"a/+/b", "a/+/b", "a.*.b", "a..b"},
		{"+", "+", "*", ""},
		{"+/+", "+/+", "*.*", "."},
		{"a/+", "a/+", "a.*", "a."},
		{"+/b", "+/b", "*.b", ".b"},
		{"a/#", "a/#", "a.#", "-"},
		{"#", "#", "#", "-"},
		{"#/a/#", "-", "#.a.#", "-"},
		{"#/a", "-", "#.a", "-"},
		{"a/#/b", "-", "a.#.b", "-"},
		{"a/*/b", "a/*/b", "a.%2A.b", "a.*.b"},           // a foreign wildcard is a literal
		{"a/%2B/%23", "a/%2B/%23", "a.+.%23", "a.+.%23"}, // and ours, escaped
		{"a/**/b*", "a/**/b*", "a.**.b*", "a.**.b*"},
		{"%2A", "%2A", "%252A", "%2A"},
		{"%2523/x", "%2523/x", "%2523.x", "%2523.x"},
		{"%00", "%00", "", "%00"},
		{"/+", "/+", ".*", "%00."},
		{"/#", "/#", ".#", "-"},
		{"a.b/+", "a.b/+", "a%2Eb.*", "a%2Eb."},
	} {
		f := parseFilter(t, c.canonical)
		for name, s := range map[string]struct {
			Spelling
			text string
		}{"MQTT": {MQTT, c.mqtt}, "AMQP": {Dotted, c.dotted}, "WAMP": {URI, c.uri}} {
			got, err := s.PrintFilter(f)
			if s.text == "-" {
				if !errors.Is(err, ErrFilter) || !isFault(err, FaultUnspellable) {
					t.Errorf("%s in %s: %q, %v", f, name, got, err)
				}
				continue
			}
			if got != s.text || err != nil {
				t.Errorf("%s in %s: %q, %v", f, name, got, err)
			}
			if back, err := s.ParseFilter(s.text); back != f || err != nil {
				t.Errorf("%s %q is %s, %v", name, s.text, back, err)
			}
		}
	}
}

func TestActiveMQAngle(t *testing.T) {
	for text, want := range map[string]string{
		">": "#", "a.>": "a/#", "a.*.>": "a/+/#", "a>": "a>", "a.b": "a/b", "a.#": "a/#", ">.a": ">/a", "a.%2A.>": "a/*/#",
	} {
		f, err := Dotted.ParseAngle(text)
		if f.String() != want || err != nil {
			t.Errorf("%s is %s, %v", text, f, err)
		}
	}
	if f, err := Dotted.ParseFilter("a.>"); f.String() != "a/>" || err != nil {
		t.Errorf("without the option: %s, %v", f, err)
	}
}

func TestURIPrefix(t *testing.T) {
	for _, c := range []struct {
		text, filter string
		yes, no      []string
	}{
		{"", "#", []string{"a", "a/b", "%00"}, []string{"$queue/a"}},
		{"com", "#", []string{"com", "com/a", "company/b"}, []string{"co", "a/com"}},
		{"com.", "com/#", []string{"com/a", "com/"}, []string{"com", "company/a"}},
		{"com.my", "com/#", []string{"com/my", "com/myapp/x"}, []string{"com", "com/m", "com/a/my"}},
		{"$queue.", "$queue/#", []string{"$queue/a"}, []string{"$queue", "$queues/a"}},
		{"a%2Eb.c", "a.b/#", []string{"a.b/c", "a.b/cd/e"}, []string{"a/b/c"}},
		{"a.%0", "a/#", []string{"a/", "a//b"}, []string{"a/b"}}, // a cut inside a code
		{"%00.b", "/#", []string{"/b", "/bc/d"}, []string{"%00", "b"}},
		{"%2500.b", "%00/#", []string{"%00/b"}, []string{"/b", "%2500"}},
	} {
		p, err := URI.ParsePrefix(c.text)
		if err != nil || p.Filter.String() != c.filter || p.String() != c.text {
			t.Errorf("%q: %s, %v", c.text, p.Filter, err)
			continue
		}
		for _, topic := range c.yes {
			if !p.Match(parseTopic(t, topic)) {
				t.Errorf("%q does not match %s", c.text, topic)
			}
		}
		for _, topic := range c.no {
			if p.Match(parseTopic(t, topic)) {
				t.Errorf("%q matches %s", c.text, topic)
			}
		}
	}
	long := strings.Repeat("a.", MaxLevels-1)
	for text, fault := range map[string]Fault{
		"a..b": FaultCharacter, ".a": FaultCharacter, "a b": FaultCharacter, "a#": FaultCharacter, "a.b\u2003": FaultCharacter, "a. .b": FaultCharacter,
		"a\x00": FaultNUL, "a.\xff": FaultUTF8, "\xff.a": FaultUTF8, long + "a.b": FaultLevels, strings.Repeat("a", 70000) + ".": FaultLong,
		strings.Repeat("a", 300000): FaultLong,
	} {
		if _, err := URI.ParsePrefix(text); !isFault(err, fault) || !errors.Is(err, ErrFilter) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if _, err := URI.ParsePrefix(long + "a"); err != nil {
		t.Error(err)
	}
}

func isFault(err error, fault Fault) bool {
	var e *TextError
	return errors.As(err, &e) && e.Fault == fault
}

// refusal is a text that is refused, by whom, why, and where the error points.
type refusal struct {
	name     string
	parse    func(string) error
	of       error
	text     string
	fault    Fault
	level, i int
}

func topic(s Spelling) func(string) error {
	return func(text string) error { _, err := s.ParseTopic(text); return err }
}

func filter(s Spelling) func(string) error {
	return func(text string) error { _, err := s.ParseFilter(text); return err }
}

func core(text string) error {
	_, err := ParseFilter(text)
	return err
}

var refusals = []refusal{
	{"MQTT topic", topic(MQTT), ErrTopic, "", FaultEmpty, 0, 0},
	{"MQTT topic", topic(MQTT), ErrTopic, "a/+", FaultWildcard, 1, 2},
	{"MQTT topic", topic(MQTT), ErrTopic, "a/b/c#", FaultWildcard, 2, 5},
	{"MQTT topic", topic(MQTT), ErrTopic, "a/\x00", FaultNUL, 1, 2},
	{"MQTT topic", topic(MQTT), ErrTopic, "a/b\xc3", FaultUTF8, 1, 3},
	{"MQTT topic", topic(MQTT), ErrTopic, "\xed\xa0\x80", FaultUTF8, 0, 0}, // a surrogate
	{"MQTT topic", topic(MQTT), ErrTopic, "\ufffd/\xff", FaultUTF8, 1, 4},
	{"MQTT topic", topic(MQTT), ErrTopic, strings.Repeat("a/", MaxLevels) + "a", FaultLevels, 127, 255},
	{"MQTT topic", topic(MQTT), ErrTopic, strings.Repeat("/", 65535), FaultLevels, 127, 127},
	{"MQTT topic", topic(MQTT), ErrTopic, strings.Repeat("a", 65536), FaultLong, 0, 65535},
	{"MQTT topic", topic(MQTT), ErrTopic, "a/b\uffff", FaultNonCharacter, 1, 3},
	{"MQTT filter", filter(MQTT), ErrFilter, "", FaultEmpty, 0, 0},
	{"MQTT filter", filter(MQTT), ErrFilter, "+/\uffff", FaultNonCharacter, 1, 2},
	{"MQTT filter", filter(MQTT), ErrFilter, "a/#/b", FaultAnyLevels, 1, 2},
	{"MQTT filter", filter(MQTT), ErrFilter, "a#", FaultWildcard, 0, 1},
	{"MQTT filter", filter(MQTT), ErrFilter, "a/+b", FaultWildcard, 1, 2},
	{"MQTT filter", filter(MQTT), ErrFilter, "##", FaultWildcard, 0, 0},
	{"MQTT filter", filter(MQTT), ErrFilter, "+\x00", FaultWildcard, 0, 0},
	{"MQTT filter", filter(MQTT), ErrFilter, "a\x00", FaultNUL, 0, 1},
	{"MQTT filter", filter(MQTT), ErrFilter, "+/\xff", FaultUTF8, 1, 2},
	{"MQTT filter", filter(MQTT), ErrFilter, strings.Repeat("+/", 128) + "+", FaultLevels, 127, 255},
	{"MQTT filter", filter(MQTT), ErrFilter, strings.Repeat("/", 65535), FaultLevels, 127, 127},
	{"MQTT filter", filter(MQTT), ErrFilter, strings.Repeat("a", 65536), FaultLong, 0, 65535},
	{"filter", core, ErrFilter, "#/#/#", FaultAnyLevels, 2, 4},
	{"filter", core, ErrFilter, "#/#a", FaultWildcard, 1, 2},
	{"AMQP filter", filter(Dotted), ErrFilter, "#.a.#.#", FaultAnyLevels, 3, 6},
	{"AMQP key", topic(Dotted), ErrTopic, strings.Repeat("a.", 128) + "a", FaultLevels, 128, 255},
	{"AMQP key", topic(Dotted), ErrTopic, strings.Repeat(".", 65535), FaultLevels, 128, 127},
	{"AMQP key", topic(Dotted), ErrTopic, strings.Repeat("/", 30000), FaultLong, 0, 0}, // 90,000 in canonical text
	{"AMQP key", topic(Dotted), ErrTopic, strings.Repeat("x", 300000), FaultLong, 0, maxSpelled},
	{"AMQP key", topic(Dotted), ErrTopic, "a.\x00", FaultNUL, 1, 2},
	{"AMQP key", topic(Dotted), ErrTopic, "a.b.\xff", FaultUTF8, 2, 4},
	{"AMQP key", topic(Dotted), ErrTopic, "a.\uffff", FaultNonCharacter, 1, 2},
	{"AMQP filter", filter(Dotted), ErrFilter, "*.\uffff", FaultNonCharacter, 1, 2},
	{"WAMP topic", topic(URI), ErrTopic, strings.Repeat("a.", 65535) + "a", FaultLevels, 128, 255},
	{"WAMP topic", topic(URI), ErrTopic, "a.\uffff", FaultNonCharacter, 1, 2},
	{"WAMP wildcard", filter(URI), ErrFilter, ".\uffff", FaultNonCharacter, 1, 1},
	{"WAMP topic", topic(URI), ErrTopic, "", FaultCharacter, 0, 0},
	{"WAMP topic", topic(URI), ErrTopic, "a..b", FaultCharacter, 1, 2},
	{"WAMP topic", topic(URI), ErrTopic, "a.b.", FaultCharacter, 2, 4},
	{"WAMP topic", topic(URI), ErrTopic, ".a", FaultCharacter, 0, 0},
	{"WAMP topic", topic(URI), ErrTopic, "a.b c", FaultCharacter, 1, 3},
	{"WAMP topic", topic(URI), ErrTopic, "a.b\u2003", FaultCharacter, 1, 3},
	{"WAMP topic", topic(URI), ErrTopic, "a#", FaultCharacter, 0, 1},
	{"WAMP wildcard", filter(URI), ErrFilter, "a..#", FaultCharacter, 2, 3},
	{"WAMP wildcard", filter(URI), ErrFilter, "..a\tb", FaultCharacter, 2, 3},
}

// [MQTT-3.3.2-2] [MQTT-4.7.1-1] [MQTT-4.7.1-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2] [MQTT-4.7.3-3] [MQTT-1.5.4-1] and the limits.
// It shows faults 9, 10 and 24.
func TestRefused(t *testing.T) {
	for _, c := range refusals {
		err := c.parse(c.text)
		want := TextError{Of: c.of, Fault: c.fault, Level: c.level, Byte: c.i}
		var e *TextError
		if !errors.As(err, &e) || *e != want || !errors.Is(err, c.of) {
			t.Errorf("%s %.20q: %v, want %v", c.name, c.text, err, &want)
		}
	}
}

// TestPathRefused shows faults 9 and 24.
func TestPathRefused(t *testing.T) {
	long := strings.Repeat("x", MaxSegment+1)
	for _, c := range []struct {
		segments []string
		fault    Fault
		level    int
	}{
		{nil, FaultEmpty, 0},
		{[]string{"a", "."}, FaultCharacter, 1},
		{[]string{".."}, FaultCharacter, 0},
		{[]string{"a", "b", long}, FaultSegment, 2},
		{[]string{"a\x00"}, FaultNUL, 0},
		{[]string{"\xff"}, FaultUTF8, 0},
		{[]string{"\xed\xa0\x80"}, FaultUTF8, 0},
		{[]string{"a", "\uffff"}, FaultNonCharacter, 1},
		{make([]string, 40000), FaultLevels, MaxLevels},
	} {
		_, err := Path.ParseTopic(c.segments)
		var e *TextError
		if !errors.As(err, &e) || e.Fault != c.fault || e.Level != c.level || e.Of != ErrTopic {
			t.Errorf("%.20q: %v", c.segments, err)
		}
	}
	if got, err := Path.PrintTopic(mustTopic(t, "a", long)); got != nil || !isFault(err, FaultSegment) {
		t.Errorf("level of 256 bytes: %q, %v", got, err)
	}
	if got, err := Path.PrintTopic(mustTopic(t, long[1:])); len(got) != 1 || err != nil {
		t.Errorf("level of 255 bytes: %v", err)
	}
	if _, err := Path.PrintTopic(Topic{}); !isFault(err, FaultEmpty) {
		t.Error("the zero topic was printed")
	}
}

func TestZeroIsNotPrinted(t *testing.T) {
	for _, s := range []Spelling{MQTT, Dotted, URI} {
		if text, err := s.PrintTopic(Topic{}); !errors.Is(err, ErrTopic) {
			t.Errorf("%T printed the zero topic as %q", s, text)
		}
		if text, err := s.PrintFilter(Filter{}); !errors.Is(err, ErrFilter) {
			t.Errorf("%T printed the zero filter as %q", s, text)
		}
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	_, err := MQTT.ParseFilter("a/b/+c")
	if got, want := err.Error(), "filter refused: a wildcard character where none is allowed, level 2, byte 4"; got != want {
		t.Errorf("%s", got)
	}
	_, err = NewTopic("a", "\xff")
	if got, want := err.Error(), "topic refused: not well-formed UTF-8, level 1"; got != want {
		t.Errorf("%s", got)
	}
	seen := map[string]bool{}
	for f := FaultEmpty; f <= FaultUnspellable; f++ {
		if s := f.String(); seen[s] || strings.HasPrefix(s, "fault ") {
			t.Errorf("fault %d is %q", f, s)
		}
		seen[f.String()] = true
	}
	if Fault(200).String() != "fault 200" {
		t.Error(Fault(200).String())
	}
}

// Texts that need no escape cost nothing, or the one string that is made.
func TestSpellingAllocations(t *testing.T) {
	topic := parseTopic(t, "plant/7/temp")
	for name, c := range map[string]struct {
		most float64
		f    func()
	}{
		"MQTT topic":         {0, func() { _, _ = MQTT.ParseTopic("plant/7/temp") }},
		"MQTT topic, UTF-8":  {0, func() { _, _ = MQTT.ParseTopic("Werk/Ofen 7/Wärme") }},
		"MQTT filter":        {0, func() { _, _ = MQTT.ParseFilter("plant/+/temp/#") }},
		"MQTT print":         {0, func() { _, _ = MQTT.PrintTopic(topic) }},
		"AMQP key, one word": {0, func() { _, _ = Dotted.ParseTopic("orders") }},
		"AMQP key":           {1, func() { _, _ = Dotted.ParseTopic("plant.7.temp") }},
		"AMQP print":         {1, func() { _, _ = Dotted.PrintTopic(topic) }},
		"WAMP":               {1, func() { _, _ = URI.ParseTopic("plant.7.temp") }},
		"first":              {0, func() { _ = topic.First() }},
	} {
		if got := testing.AllocsPerRun(100, c.f); got > c.most {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
