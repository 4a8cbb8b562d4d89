package stomp

import (
	"math"
	"strconv"

	"entrepot/core"
)

// expression is a part of a selector.
type expression interface {
	eval(*core.Message) value
}

type literal struct{ value }

func (l literal) eval(*core.Message) value { return l.value }

type name string

func (n name) eval(m *core.Message) value { return lookUp(m, string(n)) }

// both is AND or OR of a list, with SQL's three values: what decides is whether one
// part is false (AND) or true (OR); else one unknown part makes it unknown.
type both struct {
	parts []expression
	or    bool
}

func (b both) eval(m *core.Message) value {
	result := truth(!b.or)
	for _, e := range b.parts {
		switch v := asTruth(e.eval(m)); {
		case v.kind != truthValue:
			result = value{}
		case v.truth == b.or:
			return v
		}
	}
	return result
}

// asTruth: a header that says "true" or "false" may stand alone.
func asTruth(v value) value {
	if v.kind == textValue && v.s == "true" {
		return truth(true)
	}
	if v.kind == textValue && v.s == "false" {
		return truth(false)
	}
	if v.kind != truthValue {
		return value{}
	}
	return v
}

type not struct{ of expression }

func (n not) eval(m *core.Message) value {
	v := asTruth(n.of.eval(m))
	if v.kind != truthValue {
		return value{}
	}
	return truth(!v.truth)
}

// comparison is = <> < <= > >=.
type comparison struct {
	left, right expression
	less, same  bool // which outcomes make it true
	more        bool
}

func (c comparison) eval(m *core.Message) value {
	left, right := c.left.eval(m), c.right.eval(m)
	order, ok := compare(left, right, c.less != c.more)
	if !ok {
		return value{}
	}
	return truth(order < 0 && c.less || order == 0 && c.same || order > 0 && c.more)
}

// between asks for its middle once, so that nesting does not multiply the cost.
type between struct{ of, low, high expression }

func (b between) eval(m *core.Message) value {
	v := b.of.eval(m)
	low, okLow := compare(v, b.low.eval(m), true)
	high, okHigh := compare(v, b.high.eval(m), true)
	switch {
	case okLow && low < 0, okHigh && high > 0:
		return truth(false)
	case okLow && okHigh:
		return truth(true)
	}
	return value{}
}

// compare orders two values; ok is false when they cannot be compared. Texts and truth
// values are only the same or not, as in JMS, unless both sides are numbers.
func compare(a, b value, ordered bool) (order int, ok bool) {
	switch {
	case a.kind == unknownValue || b.kind == unknownValue:
		return 0, false
	case a.kind == textValue && b.kind == textValue && !ordered:
		return sameOrNot(a.s == b.s), true
	case a.kind == truthValue || b.kind == truthValue:
		a, b = asTruth(a), asTruth(b)
		return sameOrNot(a.truth == b.truth), !ordered && a.kind == b.kind && a.kind == truthValue
	}
	x, okx := a.number()
	y, oky := b.number()
	if !okx || !oky {
		return 0, false
	}
	if x.kind == integerValue && y.kind == integerValue {
		return orderOf(x.n, y.n), true
	}
	return orderOf(x.float(), y.float()), true
}

func sameOrNot(same bool) int {
	if same {
		return 0
	}
	return 1
}

func orderOf[N int64 | float64](a, b N) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// arithmetic is + - * / of two numbers; unknown when one is none, or for a division by
// zero.
type arithmetic struct {
	left, right expression
	sign        byte
}

func (a arithmetic) eval(m *core.Message) value {
	x, okx := a.left.eval(m).number()
	y, oky := a.right.eval(m).number()
	if !okx || !oky {
		return value{}
	}
	if x.kind == integerValue && y.kind == integerValue {
		if n, ok := integers(x.n, y.n, a.sign); ok {
			return whole(n)
		}
	}
	f := floats(x.float(), y.float(), a.sign)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return value{}
	}
	return value{kind: floatValue, f: f}
}

// integers is exact; ok is false when the result does not fit, or is none.
func integers(x, y int64, sign byte) (n int64, ok bool) {
	switch sign {
	case '+':
		n = x + y
		return n, (n > x) == (y > 0)
	case '-':
		n = x - y
		return n, (n < x) == (y > 0)
	case '*':
		if x == 0 || y == 0 {
			return 0, true
		}
		n = x * y
		return n, n/y == x && (x != -1 || y != math.MinInt64) && (y != -1 || x != math.MinInt64)
	}
	if y == 0 || x == math.MinInt64 && y == -1 {
		return 0, false
	}
	return x / y, true
}

func floats(x, y float64, sign byte) float64 {
	switch sign {
	case '+':
		return x + y
	case '-':
		return x - y
	case '*':
		return x * y
	}
	return x / y
}

// isNull is IS NULL.
type isNull struct{ of expression }

func (n isNull) eval(m *core.Message) value { return truth(n.of.eval(m).kind == unknownValue) }

// inList is IN: a look-up, however long the list.
type inList struct {
	of   expression
	list map[string]struct{}
}

func (l inList) eval(m *core.Message) value {
	v := l.of.eval(m)
	if v.kind == integerValue {
		v = text(strconv.FormatInt(v.n, 10))
	}
	if v.kind != textValue {
		return value{}
	}
	_, ok := l.list[v.s]
	return truth(ok)
}

// like is LIKE.
type like struct {
	of      expression
	pattern *pattern
}

func (l like) eval(m *core.Message) value {
	v := l.of.eval(m)
	if v.kind != textValue {
		return value{}
	}
	return truth(l.pattern.match(v.s))
}
