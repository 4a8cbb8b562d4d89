package e2e

import (
	"fmt"
	"strconv"
	"strings"
)

// script is a scenario file: sections, each with a title, a broker and clients
// of its own.
type script struct {
	head     []string // lines before the first section
	sections []*section
}

type section struct {
	title string
	steps []*step
}

// step is one line of a section that is no expectation, with the expectations
// that follow it.
type step struct {
	line   int
	text   string
	words  []word // none for a comment or an empty line
	expect []string
}

// word is one word of a line; a payload was quoted as a whole.
type word struct {
	text    string
	payload bool
}

// parseScript reads a scenario file.
func parseScript(text string) (*script, error) {
	s := &script{}
	var last *step // the last command, which expectations belong to
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		title, isTitle := strings.CutPrefix(line, "== ")
		switch {
		case isTitle:
			s.sections = append(s.sections, &section{title: title})
			last = nil
			continue
		case len(s.sections) == 0:
			s.head = append(s.head, line)
			continue
		case strings.HasPrefix(line, "expect "):
			if last == nil {
				return nil, fmt.Errorf("line %d: nothing was done before this expectation", i+1)
			}
			last.expect = append(last.expect, line)
			continue
		}
		words, err := split(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		st := &step{line: i + 1, text: line, words: words}
		if len(words) > 0 {
			last = st
		}
		sec := s.sections[len(s.sections)-1]
		sec.steps = append(sec.steps, st)
	}
	return s, nil
}

// String is the file again.
func (s *script) String() string {
	var lines []string
	lines = append(lines, s.head...)
	for _, sec := range s.sections {
		lines = append(lines, "== "+sec.title)
		for _, st := range sec.steps {
			lines = append(append(lines, st.text), st.expect...)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// split cuts a line at spaces outside of quotes; quoted parts are read as Go
// strings. A line that begins with # has no words.
func split(line string) ([]word, error) {
	var words []word
	if strings.HasPrefix(line, "#") {
		return nil, nil
	}
	for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		w := word{payload: rest[0] == '"'}
		for rest != "" && rest[0] != ' ' {
			if rest[0] != '"' {
				w.text += rest[:1]
				rest = rest[1:]
				continue
			}
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rest, err)
			}
			part, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", quoted, err)
			}
			w.text += part
			rest = rest[len(quoted):]
		}
		words = append(words, w)
	}
	return words, nil
}

// options are the words "name=value" or "name" after a verb's own words.
type options struct {
	payload string
	plain   []string
	pairs   [][2]string // in order, as name and value
}

// readOptions sorts what follows a verb's own words; sep separates name and
// value.
func readOptions(words []word, sep string) options {
	var o options
	for _, w := range words {
		if w.payload {
			o.payload = w.text
			continue
		}
		name, value, ok := strings.Cut(w.text, sep)
		if !ok {
			o.plain = append(o.plain, w.text)
			continue
		}
		o.pairs = append(o.pairs, [2]string{name, value})
	}
	return o
}

// pop takes a pair out of the options.
func (o *options) pop(name, fallback string) string {
	for i, p := range o.pairs {
		if p[0] == name {
			o.pairs = append(o.pairs[:i:i], o.pairs[i+1:]...)
			return p[1]
		}
	}
	return fallback
}

// number takes a pair with a number out of the options.
func (o *options) number(name string, fallback int) (int, error) {
	n, err := strconv.ParseInt(o.pop(name, strconv.Itoa(fallback)), 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return int(n), nil
}

// flag takes a plain word out of the options.
func (o *options) flag(name string) bool {
	for i, p := range o.plain {
		if p == name {
			o.plain = append(o.plain[:i:i], o.plain[i+1:]...)
			return true
		}
	}
	return false
}

// done complains about words that nobody took.
func (o *options) done() error {
	if len(o.plain)+len(o.pairs) > 0 {
		return fmt.Errorf("words that mean nothing here: %q %q", o.plain, o.pairs)
	}
	return nil
}
