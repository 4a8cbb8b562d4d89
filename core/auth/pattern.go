package auth

import (
	"errors"
	"fmt"
	"strings"

	"entrepot/routing"
)

// The client's own name for itself in a rule, as a whole level of a topic or
// once in a name.
const (
	ofUser   = "%u"
	ofClient = "%c"
)

// own is what stands for a level of a rule; ok is false for a client that has
// no such name, whom the rule does not concern.
func (p *Principal) own(level string) (text string, ok bool) {
	switch level {
	case ofUser:
		return p.User, p.User != ""
	case ofClient:
		return p.ClientID, p.ClientID != ""
	}
	return level, true
}

// pattern is the object of a rule: a filter of topics or procedures, or a name
// with '*' for any text.
type pattern struct {
	kind ObjectKind
	any  bool // everything of every kind

	filter  routing.Filter
	renamed []routing.Segment // the filter's, when %u or %c is in it

	name string
}

// parsePattern reads an object in its canonical spelling.
func parsePattern(text string) (pattern, error) {
	for prefix, kind := range map[string]ObjectKind{"queue:": Queue, "exchange:": Exchange} {
		if name, ok := strings.CutPrefix(text, prefix); ok {
			return parseName(kind, name)
		}
	}
	if f, ok := strings.CutPrefix(text, "rpc:"); ok {
		return parseFilter(Procedure, f)
	}
	return parseFilter(Topic, strings.TrimPrefix(text, "topic:"))
}

func parseName(kind ObjectKind, name string) (pattern, error) {
	own := strings.Count(name, ofUser) + strings.Count(name, ofClient)
	switch {
	case name == "":
		return pattern{}, errors.New("no name behind the colon")
	case len(name) > 255:
		return pattern{}, errors.New("the name is longer than 255 bytes")
	case own > 1 || own == 1 && strings.Contains(name, "*"):
		// Two clients' names could come to the same.
		return pattern{}, fmt.Errorf("%q: a name has %%u or %%c once, and then no *", name)
	}
	return pattern{kind: kind, name: name}, nil
}

func parseFilter(kind ObjectKind, text string) (pattern, error) {
	f, err := routing.ParseFilter(text)
	if err != nil {
		return pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	if hint, ok := elsewhere(f.First()); ok {
		return pattern{}, fmt.Errorf("%q: not a topic: %s", text, hint)
	}
	p := pattern{kind: kind, filter: f}
	for _, s := range f.Segments() {
		switch {
		case s.Kind != routing.Literal:
		case s.Level == ofUser || s.Level == ofClient:
			p.renamed = f.Segments()
		case strings.Contains(s.Level, ofUser) || strings.Contains(s.Level, ofClient):
			return pattern{}, fmt.Errorf("%q: %%u and %%c stand for a whole level, not for a part of one", text)
		}
	}
	return p, nil
}

// elsewhere tells how to write what stands behind a first level that is no
// topic's.
func elsewhere(first string) (hint string, ok bool) {
	switch first {
	case "$queue":
		return "write queue:NAME", true
	case "$exchange":
		return "write exchange:NAME", true
	case "$rpc":
		return "write rpc:NAME", true
	case "$share", "$delayed":
		return "write the topic behind it", true
	}
	return "", false
}

// rank orders patterns, the most specific first. Filters compare level by
// level: a literal one, %u and %c too, before '+', before the end, before '#'.
// Names compare by being without '*', then by how much stands before it, then
// by how much there is of it.
func (p *pattern) rank() string {
	switch {
	case p.any:
		return "z"
	case p.name != "":
		before, _, wild := strings.Cut(p.name, "*")
		if !wild {
			return "0"
		}
		return fmt.Sprintf("1%03d%03d", 255-len(before), 255-len(strings.ReplaceAll(p.name, "*", "")))
	}
	var b strings.Builder
	for _, s := range p.filter.Segments() {
		b.WriteByte([...]byte{routing.Literal: 'a', routing.OneLevel: 'b', routing.AnyLevels: 'd'}[s.Kind])
	}
	return b.String() + "c"
}

// filterOf is the filter as it stands for one client; ok is false when it does
// not concern that. What the client is called is one literal level, whatever
// is in it.
func (p *pattern) filterOf(who *Principal) (f routing.Filter, ok bool) {
	if p.renamed == nil {
		return p.filter, true
	}
	all := make([]routing.Segment, len(p.renamed))
	for i, s := range p.renamed {
		if s.Kind == routing.Literal {
			own := s.Level
			if s.Level, ok = who.own(own); !ok || i == 0 && own != s.Level && strings.HasPrefix(s.Level, "$") {
				return f, false // nobody's name is the beginning of the broker's own topics
			}
		}
		all[i] = s
	}
	f, err := routing.NewFilter(all...)
	return f, err == nil
}

// covers tells whether the pattern stands for all of what is asked about.
func (p *pattern) covers(who *Principal, q *question) bool {
	if p.any {
		return true
	}
	if p.name == "" {
		f, ok := p.filterOf(who)
		return ok && f.Covers(q.filter)
	}
	for _, own := range []string{ofUser, ofClient} {
		if before, after, ok := strings.Cut(p.name, own); ok {
			text, known := who.own(own)
			return known && q.name == before+text+after
		}
	}
	return globs(p.name, q.name)
}

// overlaps tells whether the pattern stands for a part of a filter, or of every
// queue.
func (p *pattern) overlaps(who *Principal, q *question) bool {
	if p.any || p.name != "" {
		return true
	}
	f, ok := p.filterOf(who)
	return ok && f.Overlaps(q.filter)
}

// own tells whether the pattern is about what bears the client's own name.
func (p *pattern) own() bool {
	return p.renamed != nil || strings.Contains(p.name, ofUser) || strings.Contains(p.name, ofClient)
}

// globs matches a name, '*' standing for any text, in a time of at most the
// product of both lengths.
func globs(glob, name string) bool {
	star, retry := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, retry = g, n
			g++
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case star >= 0:
			retry++
			g, n = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
