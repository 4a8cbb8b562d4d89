package stomp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

func selectorMessage() *core.Message {
	return &core.Message{Guarantee: core.Durable, Props: &core.Properties{
		Type: "order.new", HasPriority: true, Priority: 7, MessageID: "m1", Timestamp: time.Unix(1000, 0),
		Headers: routing.Headers{
			{Name: "color", Value: "red"}, {Name: "weight", Value: "7"}, {Name: "price", Value: "2.50"},
			{Name: "name", Value: "O'Neil"}, {Name: "x-odd name", Value: "yes"}, {Name: "size", Value: int32(12)},
			{Name: "flag", Value: true}, {Name: "word", Value: "true"}, {Name: "color", Value: "blue"},
			{Name: "umlaut", Value: "Käse"}, {Name: "percent", Value: "50%"}, {Name: "big", Value: "9223372036854775807"},
			{Name: "none", Value: nil}, {Name: "ratio", Value: 0.5},
		}}}
}

func TestSelector(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"color = 'red'", true},
		{"color = 'red' AND weight > 5", true},
		{"color='red'AND weight>7", false},
		{"color <> 'red' OR weight >= 7", true},
		{"NOT color = 'green'", true},
		{"not (color = 'red' and weight = 7)", false},
		{"color = 'blue'", false}, // the first of a name counts
		{"missing = 'a'", false},
		{"NOT missing = 'a'", false}, // unknown stays unknown
		{"missing <> 'a'", false},
		{"missing IS NULL", true},
		{"none IS NULL", true},
		{"color IS NOT NULL", true},
		{"missing = 'a' OR color = 'red'", true},
		{"missing = 'a' AND color = 'green'", false},
		{"NOT (missing = 'a' AND color = 'green')", true}, // unknown AND false is false
		{"weight BETWEEN 5 AND 7", true},
		{"weight NOT BETWEEN 5 AND 7", false},
		{"weight BETWEEN 8 AND missing", false},
		{"NOT weight BETWEEN 8 AND missing", true},
		{"color IN ('green', 'red')", true},
		{"color NOT IN ('green', 'red')", false},
		{"missing NOT IN ('green')", false},
		{"weight IN (6, 7)", true},
		{"priority IN (7)", true},
		{"type LIKE 'order.%'", true},
		{"type LIKE 'order_new'", true},
		{"type LIKE 'order_'", false},
		{"type NOT LIKE '%old'", true},
		{"umlaut LIKE 'K_se'", true},
		{"umlaut LIKE '%\u00e4_e'", true},
		{"percent LIKE '50!%' ESCAPE '!'", true},
		{"color LIKE 'r!%' ESCAPE '!'", false},
		{"name = 'O''Neil'", true},
		{`"x-odd name" = 'yes'`, true},
		{"size = 12", true},
		{"size + 1 = 13", true},
		{"size * 2 - 4 / 2 = 22", true},
		{"(size + 2) * 2 = 28", true},
		{"-size = -12", true},
		{"size / 0 = 1", false},
		{"price * 2 = 5", true},
		{"price = 2.5", true},
		{"price > 2.4e0", true},
		{"weight = '7'", true},
		{"color > 5", false},
		{"color = 5", false},
		{"flag", true},
		{"flag = TRUE", true},
		{"word = TRUE", true},
		{"NOT flag", false},
		{"TRUE", true},
		{"FALSE OR flag", true},
		{"big = 9223372036854775807", true},
		{"big + 1 > 9000000000000000000", true},
		{"big * big > 0", true},
		{"ratio < 1", true},
		{"JMSPriority = 7", true},
		{"JMSType = 'order.new' AND JMSDeliveryMode = 'PERSISTENT'", true},
		{"persistent", true},
		{"JMSTimestamp = 1000000 AND timestamp = 1000", true},
		{"JMSMessageID = 'm1'", true},
		{"JMSCorrelationID IS NULL", true},
		{"convert_string_expressions:weight > 5", true},
		{"weight = 7L", true},
		{"color", false},
		{"1 + 1", false},
	} {
		s, err := parseSelector(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := s.chooses(selectorMessage()); got != c.want {
			t.Errorf("%s: %v", c.text, got)
		}
		if s.chooses(&core.Message{}) && !strings.Contains(c.text, "NULL") && !strings.Contains(strings.ToUpper(c.text), "TRUE") {
			t.Errorf("%s: chooses an empty message", c.text)
		}
	}
}

func TestSelectorFaultShowsThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "a value was expected at byte 1",
		"color =":                          "a value was expected at byte 8",
		"color = 'red' AND":                "a value was expected at byte 18",
		"color = 'red' 5":                  "AND, OR or the end was expected at byte 15, here: color = 'red' >>>5",
		"color = 'red":                     "the quote has no end at byte 9",
		"(color = 'red'":                   ") was expected at byte 15",
		"a NOT 5":                          "BETWEEN, IN or LIKE was expected at byte 7",
		"a LIKE 5":                         "a pattern in quotes was expected at byte 8",
		"a LIKE 'x!' ESCAPE '!'":           "a pattern that ends in its escape character",
		"a IN (b)":                         "a text in quotes was expected at byte 7",
		"a IS 5":                           "NULL was expected at byte 6",
		"a # b":                            "a character that means nothing here at byte 3",
		"a = 1.2.3":                        "not a number at byte 5",
		"convert_string_expressions:a = ":  "a value was expected at byte 32",
		strings.Repeat("(", 200):           "nested too deeply",
		strings.Repeat("NOT ", 200) + "a":  "nested too deeply",
		strings.Repeat("- ", 200) + "a":    "nested too deeply",
		"a" + strings.Repeat("+a", 200):    "nested too deeply",
		strings.Repeat("a", maxSelector+1): "selector longer than 4096 bytes",
		"a LIKE '" + strings.Repeat("_", 65) + "'": "more than 64 characters",
	} {
		_, err := parseSelector(text)
		var f *fault
		if !errors.As(err, &f) {
			t.Errorf("%.40q: %v", text, err)
		} else if !strings.Contains(f.Error(), want) {
			t.Errorf("%.40q: %q, not %q", text, f.Error(), want)
		}
	}
}

// TestSelectorCost: hostile selectors on hostile headers take about as long as a plain
// look at the same bytes would.
// It shows fault 27.
func TestSelectorCost(t *testing.T) {
	m := &core.Message{Props: &core.Properties{Headers: routing.Headers{
		{Name: "h", Value: strings.Repeat("a", 60_000)}, {Name: "n", Value: "1"}}}}
	nested := "n"
	for range 90 {
		nested = "(" + nested + " between 0 and 1)"
	}
	for _, text := range []string{
		"h LIKE '" + strings.Repeat("%a", 1000) + "b'",
		"h LIKE '" + strings.Repeat("%_a", 1000) + "b'",
		"h LIKE '%" + strings.Repeat("a", 4000) + "b%'",
		"h LIKE '%" + strings.Repeat("_", 63) + "b%'",
		nested,
		"n" + strings.Repeat(" OR n", 700),
	} {
		s, err := parseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for range 10 {
			s.chooses(m)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%.30s: %v for ten", text, d)
		}
	}
}

// likeByDefinition is what LIKE means, by trying everything.
func likeByDefinition(pattern, s []rune) bool {
	if len(pattern) == 0 {
		return len(s) == 0
	}
	switch pattern[0] {
	case '%':
		if len(pattern) > 1 && pattern[1] == '%' { // says the same, and would double the work
			return likeByDefinition(pattern[1:], s)
		}
		return likeByDefinition(pattern[1:], s) || len(s) > 0 && likeByDefinition(pattern, s[1:])
	case '_':
		return len(s) > 0 && likeByDefinition(pattern[1:], s[1:])
	}
	return len(s) > 0 && s[0] == pattern[0] && likeByDefinition(pattern[1:], s[1:])
}

func FuzzLike(f *testing.F) {
	f.Add("a%b_", "axxbc")
	f.Add("%_ä_%", "käse")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 20 || len(s) > 20 {
			return
		}
		pattern, s = strings.ToValidUTF8(pattern, ""), strings.ToValidUTF8(s, "")
		p, ok := newPattern(pattern, 0)
		if !ok {
			t.Fatalf("%q refused", pattern)
		}
		if got, want := p.match(s), likeByDefinition([]rune(pattern), []rune(s)); got != want {
			t.Errorf("%q LIKE %q: %v", s, pattern, got)
		}
	})
}

func FuzzSelector(f *testing.F) {
	for _, text := range []string{"color = 'red' AND weight > 5", "a LIKE 'x%' ESCAPE '!' OR NOT b IN ('1',2)",
		"(a + 1) * 2 BETWEEN -3 AND +4.5e1", `"odd name" IS NOT NULL`, "TRUE <> FALSE"} {
		f.Add(text, "color", "red")
	}
	f.Fuzz(func(t *testing.T, text, name, header string) {
		s, err := parseSelector(text)
		if err != nil {
			var f *fault
			if !errors.As(err, &f) {
				t.Fatalf("not a fault: %v", err)
			}
			return
		}
		m := selectorMessage()
		m.Props.Headers = append(m.Props.Headers, routing.Header{Name: name, Value: header})
		if s.chooses(m) {
			n, err := parseSelector("NOT (" + text + ")")
			if err == nil && n.chooses(m) {
				t.Errorf("%q and its opposite are both true", text)
			}
		}
	})
}
