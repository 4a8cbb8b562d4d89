package auth

import (
	"cmp"
	"fmt"
	"slices"

	"entrepot/routing"
)

// Rules say who may do what; what none of them allows is denied. Of the rules
// that stand for all of what is asked, the one decides that
//
//   - has the most specific object,
//   - of those, names who it is for most closely: a user, a group, whoever is
//     logged in or is not, anyone,
//   - of those, names the action rather than all,
//   - of those, comes first in the file.
//
// A filter is decided like a topic, by the rules that cover it; what rules
// inside it say holds for each topic, when a message comes. A wildcard at the
// front stands for no level that begins with $, so $SYS has rules of its own;
// who may admin may read that. All methods may be called from any goroutine.
type Rules struct {
	number int
	kinds  [Procedure + 1][Admin + 1]shelf
}

// audience says who a rule is for, the closest first.
type audience uint8

const (
	forUser audience = iota
	forGroup
	forState // logged in, or not
	forAnyone
)

// The names of the two states, as in a file.
const (
	nobody   = "anonymous"
	somebody = "authenticated"
)

// rule is one line.
type rule struct {
	line  int
	text  string
	allow bool

	who  audience
	name string // of the user, the group or the state

	actions []Action // as the kind of object has them
	all     bool
	object  pattern
	rank    string
}

// order says which of two rules decides, where both may.
func (r *rule) order(o *rule) int {
	return cmp.Or(cmp.Compare(r.rank, o.rank), cmp.Compare(r.who, o.who), bool2int(r.all)-bool2int(o.all),
		cmp.Compare(r.line, o.line))
}

func bool2int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shelf holds the rules of one action on one kind of object, by whom they are
// for.
type shelf [forAnyone + 1]map[string]*ruleList

func (s *shelf) add(r *rule) {
	if s[r.who] == nil {
		s[r.who] = map[string]*ruleList{}
	}
	if s[r.who][r.name] == nil {
		s[r.who][r.name] = &ruleList{}
	}
	s[r.who][r.name].add(r)
}

// lists calls f with each list that concerns a client.
func (s *shelf) lists(p *Principal, f func(*ruleList)) {
	each := func(who audience, name string) {
		if l := s[who][name]; l != nil {
			f(l)
		}
	}
	state := nobody
	if p.User != "" {
		each(forUser, p.User)
		state = somebody
	}
	for _, g := range p.Groups {
		each(forGroup, g)
	}
	each(forState, state)
	each(forAnyone, "")
}

// question is an Object that was read.
type question struct {
	name   string
	filter routing.Filter
}

// Decision is what rules say about one question.
type Decision struct {
	Allowed bool
	// Line and Rule are the one that decided, as it stands in the file; 0 when
	// no rule stands for all of what was asked.
	Line int
	Rule string
	// List is deny_subscribe or deny_publish when that denied it, by the filter
	// Rule.
	List string
	// Own tells that the rule is about the client's own name, %u or %c.
	Own bool
	// Inside are the lines that deny a part of the filter that is allowed: it
	// is granted, and their topics are left out. Without are the filters of a
	// list that do.
	Inside  []int
	Without []string
}

// Explain decides, and says by which rule. The error is for a name that cannot
// be read.
func (r *Rules) Explain(who Principal, a Action, o Object) (Decision, error) {
	if a == Admin && o == (Object{}) {
		o.Name = "$SYS/#"
	}
	q := question{name: o.Name}
	if o.Kind == Topic || o.Kind == Procedure {
		var err error
		if q.filter, err = routing.ParseFilter(o.Name); err != nil {
			return Decision{}, fmt.Errorf("%q: %w", o.Name, err)
		}
	}
	s := &r.kinds[o.Kind][a]
	best := s.find(&who, &q)
	if best == nil && a == Subscribe && q.filter.First() == "$SYS" {
		return r.Explain(who, Admin, o)
	}
	if best == nil {
		return Decision{}, nil
	}
	d := Decision{Allowed: best.allow, Line: best.line, Rule: best.text, Own: best.object.own()}
	if d.Allowed && (q.filter.HasWildcard() || o.Kind == Queue && o.Whole) {
		d.Inside = s.denials(&who, &q, best)
	}
	return d, nil
}

// find is the rule that decides; nil when none does.
func (s *shelf) find(who *Principal, q *question) *rule {
	var best *rule
	s.lists(who, func(l *ruleList) {
		l.about(q.name, func(list []*rule) {
			for _, r := range list {
				if best != nil && best.order(r) < 0 {
					return
				}
				if r.object.covers(who, q) {
					best = r
					return
				}
			}
		})
	})
	return best
}

// denials are the lines that deny a part of what best allows.
func (s *shelf) denials(who *Principal, q *question, best *rule) (lines []int) {
	s.lists(who, func(l *ruleList) {
		for _, r := range l.all {
			if r.order(best) >= 0 {
				return
			}
			if !r.allow && r.object.overlaps(who, q) {
				lines = append(lines, r.line)
			}
		}
	})
	slices.Sort(lines)
	return lines
}

// Len is the number of rules.
func (r *Rules) Len() int { return r.number }

// Decide is a Policy.
func (r *Rules) Decide(who Principal, a Action, o Object) error {
	d, err := r.Explain(who, a, o)
	if err != nil {
		return err
	}
	return d.refusal(o)
}
