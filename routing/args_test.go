package routing

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// The four modes as RabbitMQ has them.
func TestHeadersMatch(t *testing.T) {
	for _, c := range []struct {
		name     string
		args, in Headers
		want     bool
	}{
		{"no arguments", nil, nil, true},
		{"all is the default", Headers{{"a", "1"}, {"b", "2"}}, Headers{{"b", "2"}, {"a", "1"}, {"c", "3"}}, true},
		{"all, one missing", Headers{{"x-match", "all"}, {"a", "1"}, {"b", "2"}}, Headers{{"a", "1"}}, false},
		{"all, one other", Headers{{"x-match", "all"}, {"a", "1"}, {"b", "2"}}, Headers{{"a", "1"}, {"b", "3"}}, false},
		{"all, no criterion", Headers{{"x-match", "all"}}, nil, true},
		{"all ignores x-", Headers{{"x-match", "all"}, {"x-a", "1"}, {"b", "2"}}, Headers{{"b", "2"}}, true},
		{"all-with-x does not", Headers{{"x-match", "all-with-x"}, {"x-a", "1"}, {"b", "2"}}, Headers{{"b", "2"}}, false},
		{"all-with-x", Headers{{"x-match", "all-with-x"}, {"x-a", "1"}, {"b", "2"}}, Headers{{"b", "2"}, {"x-a", "1"}}, true},
		{"any", Headers{{"x-match", "any"}, {"a", "1"}, {"b", "2"}}, Headers{{"b", "2"}}, true},
		{"any, none", Headers{{"x-match", "any"}, {"a", "1"}, {"b", "2"}}, Headers{{"a", "2"}}, false},
		{"any, no criterion", Headers{{"x-match", "any"}}, Headers{{"a", "1"}}, false},
		{"any ignores x-", Headers{{"x-match", "any"}, {"x-a", "1"}}, Headers{{"x-a", "1"}}, false},
		{"any-with-x", Headers{{"x-match", "any-with-x"}, {"x-a", "1"}, {"b", "2"}}, Headers{{"x-a", "1"}}, true},
		{"x-match is no criterion", Headers{{"x-match", "any-with-x"}}, Headers{{"x-match", "any-with-x"}}, false},
		{"x is no x-", Headers{{"x", "1"}}, nil, false},
		{"nil asks for presence", Headers{{"a", nil}}, Headers{{"a", int8(7)}}, true},
		{"nil, absent", Headers{{"a", nil}}, Headers{{"b", int8(7)}}, false},
		{"nil is not met by another name", Headers{{"a", "1"}}, Headers{{"a", nil}}, false},
		{"one of repeated headers", Headers{{"a", "2"}}, Headers{{"a", "1"}, {"a", "2"}}, true},
		{"repeated criteria", Headers{{"a", "1"}, {"a", "2"}}, Headers{{"a", "1"}, {"a", "2"}}, true},
		{"repeated criteria, one missing", Headers{{"a", "1"}, {"a", "2"}}, Headers{{"a", "1"}}, false},
		{"case counts", Headers{{"A", "1"}}, Headers{{"a", "1"}}, false},
	} {
		a, err := newArguments(c.args, HeadersKind)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := a.match(newLookup(c.in)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		many := append(Headers{}, c.in...) // the same among many, which are sorted
		for i := range 40 {
			many = append(many, Header{fmt.Sprintf("%c%d", 'A'+i, i), "1"})
		}
		if got := a.match(newLookup(many)); got != c.want {
			t.Errorf("%s, among many: %v", c.name, got)
		}
	}
}

func TestValuesCompare(t *testing.T) {
	now := time.Unix(1700000000, 5)
	for _, group := range [][]any{ // equal within a group, different over groups
		{"1", []byte("1")},
		{"", []byte{}},
		{int8(1), int16(1), int32(1), int64(1), uint8(1), uint16(1), uint32(1), uint64(1), float32(1), float64(1)},
		{int8(-1), int16(-1), int32(-1), int64(-1), float64(-1)},
		{int32(0), uint8(0), float64(0), math.Copysign(0, -1)},
		{uint64(math.MaxUint64)},
		{uint64(1 << 63), float64(1 << 63)},
		{int64(math.MinInt64), -float64(1 << 63)},
		{uint64(1<<53 + 1)},
		{float64(1 << 53), int64(1 << 53)},
		{float32(0.5), float64(0.5)},
		{math.Inf(1)}, {math.Inf(-1)}, {1e300},
		{true}, {false},
		{nil},
		{now, now.UTC()},
		{now.Add(time.Second)},
		{Decimal{2, 100}}, {Decimal{1, 10}},
		{Headers{{"a", int8(1)}, {"b", "x"}}, Headers{{"b", []byte("x")}, {"a", int64(1)}}},
		{Headers{{"a", int8(2)}, {"b", "x"}}}, {Headers{{"a", int8(1)}}}, {Headers{}},
		{[]any{"a", int8(1)}, []any{"a", uint64(1)}},
		{[]any{int8(1), "a"}}, {[]any{"a"}}, {[]any{}},
		{[]any{Headers{{"a", []any{nil}}}}},
	} {
		for _, a := range group {
			for _, b := range group {
				if !equalValue(a, b) {
					t.Errorf("%T %v is not %T %v", a, a, b, b)
				}
			}
		}
	}
	groups := []any{"1", "", int8(1), int8(-1), int8(0), uint64(math.MaxUint64), uint64(1 << 63), uint64(1<<53 + 1), float64(1 << 53), 0.5, math.Inf(1), true, false, nil,
		now, Decimal{2, 100}, Headers{{"a", int8(1)}}, Headers{{"a", int8(2)}}, Headers{{"b", int8(1)}}, Headers{}, []any{"a"}, []any{}, math.NaN(), struct{}{}}
	for i, a := range groups {
		for j, b := range groups {
			if equalValue(a, b) && i != j {
				t.Errorf("%T %v is %T %v", a, a, b, b)
			}
		}
	}
	if equalValue(math.NaN(), math.NaN()) || equalValue(struct{}{}, struct{}{}) {
		t.Error("not a number is a number, or an unknown type is compared")
	}
}

// Identities differ where the arguments differ, in type too, and only there.
func TestArgumentIdentity(t *testing.T) {
	id := func(h ...Header) string {
		a, err := newArguments(h, Fanout)
		if err != nil {
			t.Fatal(err)
		}
		return a.id()
	}
	seen := map[string]int{}
	for i, v := range []any{nil, true, false, int8(1), int16(1), int32(1), int64(1), uint8(1), uint16(1), uint32(1), uint64(1), float32(1), float64(1), "1", []byte("1"),
		time.Unix(1, 0), time.Unix(1, 1), time.Unix(256, 0), Decimal{1, 1}, Decimal{0, 1}, Decimal{0, -1}, Headers{}, Headers{{"a", nil}}, []any{}, []any{nil}, []any{nil, nil}, []any{[]any{nil}},
		"", "ab", []any{"a", "b"}, []any{"ab"}, []any{"a\x01b"}, int8(-1), float64(-1), math.NaN()} {
		s := id(Header{"k", v})
		if j, twice := seen[s]; twice {
			t.Errorf("values %d and %d are the same", i, j)
		}
		seen[s] = i
	}
	for _, c := range []struct {
		a, b []Header
		same bool
	}{
		{nil, []Header{}, true},
		{[]Header{{"a", "1"}, {"b", "2"}}, []Header{{"b", "2"}, {"a", "1"}}, true},
		{[]Header{{"a", "1"}, {"a", "2"}}, []Header{{"a", "2"}, {"a", "1"}}, false},
		{[]Header{{"a", Headers{{"x", nil}, {"y", nil}}}}, []Header{{"a", Headers{{"y", nil}, {"x", nil}}}}, true},
		{[]Header{{"ab", "c"}}, []Header{{"a", "bc"}}, false},
		{[]Header{{"a", "1"}}, []Header{{"a", "1"}, {"b", nil}}, false},
	} {
		if got := id(c.a...) == id(c.b...); got != c.same {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}

func TestHeadersGet(t *testing.T) {
	h := Headers{{"a", "1"}, {"b", nil}, {"a", "2"}}
	if v, ok := h.Get("a"); v != "1" || !ok {
		t.Error(v, ok)
	}
	if v, ok := h.Get("b"); v != nil || !ok {
		t.Error(v, ok)
	}
	if _, ok := h.Get("c"); ok {
		t.Error("c is there")
	}
}

func TestHeadersKindRoutes(t *testing.T) {
	r := standard(t)
	bind(t, r, Binding[string]{Source: "amq.headers", Queue: "pdf", Args: Headers{{"format", "pdf"}, {"type", "report"}}})
	bind(t, r, Binding[string]{Source: "amq.headers", Queue: "any", Args: Headers{{"x-match", "any"}, {"format", "pdf"}, {"type", "log"}}})
	bind(t, r, Binding[string]{Source: "amq.headers", Queue: "all"})
	for _, c := range []struct {
		h    Headers
		want string
	}{
		{Headers{{"format", "pdf"}, {"type", "report"}}, "all any pdf"},
		{Headers{{"format", "zip"}, {"type", "log"}}, "all any"},
		{nil, "all"},
	} {
		if got := reached(t, r, "amq.headers", "ignored", c.h); got != c.want {
			t.Errorf("%v: %q", c.h, got)
		}
	}
}
