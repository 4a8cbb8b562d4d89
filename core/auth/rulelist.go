package auth

import (
	"slices"
	"strings"

	"entrepot/routing"
)

const (
	fewRules    = 8 // are looked through faster than they are looked up
	mostInStart = 8 // levels
)

// ruleList holds rules in order, and the same by the start that they have in
// common with all that they cover: of thousands of rules a question meets those
// few that may be about it.
type ruleList struct {
	all     []*rule
	by      map[string][]*rule // by pattern.start
	longest int                // of the starts, in bytes
}

func (l *ruleList) add(r *rule) {
	l.all = inOrder(l.all, r)
	if l.by == nil {
		l.by = map[string][]*rule{}
	}
	start := r.object.start()
	l.by[start] = inOrder(l.by[start], r)
	l.longest = max(l.longest, len(start))
}

func inOrder(list []*rule, r *rule) []*rule {
	at, _ := slices.BinarySearchFunc(list, r, (*rule).order)
	return slices.Insert(list, at, r)
}

// about calls f with lists, each in order, that together have every rule that
// may cover a name.
func (l *ruleList) about(name string, f func([]*rule)) {
	if len(l.all) <= fewRules {
		f(l.all)
		return
	}
	f(l.by[""])
	for i := 1; i <= len(name) && i <= l.longest; i++ {
		if i == len(name) || name[i] == '/' {
			f(l.by[name[:i]])
		}
	}
}

// start is the canonical text that begins all that the pattern covers, of whole
// levels; "" is none.
func (p *pattern) start() string {
	switch {
	case p.any:
		return ""
	case p.name != "":
		if strings.Contains(p.name, "*") || strings.Contains(p.name, ofUser) || strings.Contains(p.name, ofClient) {
			return ""
		}
		return p.name
	}
	levels := strings.Split(p.filter.String(), "/")
	n := 0
	for i, at := range p.filter.Segments() {
		if at.Kind != routing.Literal || at.Level == ofUser || at.Level == ofClient || i == mostInStart {
			break
		}
		n++
	}
	return strings.Join(levels[:n], "/")
}
