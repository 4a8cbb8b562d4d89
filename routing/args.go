package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// arguments is what a binding's Args say. A binding without Args has none (nil).
type arguments struct {
	list     Headers
	identity string   // equal for equal arguments, in any order of names
	any      bool     // one criterion is enough
	criteria []Header // what headers are matched with
}

// newArguments reads the arguments of a binding; those of a headers exchange must have a good x-match.
func newArguments(list Headers, kind Kind) (*arguments, error) {
	if len(list) == 0 {
		return nil, nil
	}
	id, err := appendTable(nil, list, 0)
	if err != nil {
		return nil, err
	}
	a := &arguments{list: list, identity: string(id)}
	if kind != HeadersKind {
		return a, nil
	}
	withX := false
	if mode, ok := list.Get("x-match"); ok {
		switch mode {
		case "all":
		case "any":
			a.any = true
		case "all-with-x":
			withX = true
		case "any-with-x":
			a.any, withX = true, true
		default:
			return nil, fmt.Errorf("%w: x-match is none of all, any, all-with-x, any-with-x", ErrBinding)
		}
	}
	for _, h := range list {
		if h.Name != "x-match" && (withX || !strings.HasPrefix(h.Name, "x-")) {
			a.criteria = append(a.criteria, h)
		}
	}
	return a, nil
}

// id is the identity; "" for no arguments.
func (a *arguments) id() string {
	if a == nil {
		return ""
	}
	return a.identity
}

// headers is what Args was.
func (a *arguments) headers() Headers {
	if a == nil {
		return nil
	}
	return a.list
}

// match tells whether the headers of a message meet the criteria. No criterion: all is met, any is not.
func (a *arguments) match(m *lookup) bool {
	if a == nil {
		return true
	}
	for i := range a.criteria {
		if m.meets(&a.criteria[i]) == a.any {
			return a.any
		}
	}
	return !a.any
}

// lookup finds headers by name.
type lookup struct {
	list   Headers
	sorted Headers // by name, when there are many
}

func newLookup(h Headers) *lookup {
	m := &lookup{list: h}
	if len(h) > maxScan {
		m.sorted = slices.Clone(h)
		slices.SortStableFunc(m.sorted, byName)
	}
	return m
}

func byName(a, b Header) int { return cmp.Compare(a.Name, b.Name) }

// meets tells whether a header with that name has that value, or any when the criterion's is nil.
func (m *lookup) meets(want *Header) bool {
	if m.sorted == nil {
		for i := range m.list {
			if m.list[i].Name == want.Name && (want.Value == nil || equalValue(want.Value, m.list[i].Value)) {
				return true
			}
		}
		return false
	}
	i, _ := slices.BinarySearchFunc(m.sorted, *want, byName)
	for ; i < len(m.sorted) && m.sorted[i].Name == want.Name; i++ {
		if want.Value == nil || equalValue(want.Value, m.sorted[i].Value) {
			return true
		}
	}
	return false
}
