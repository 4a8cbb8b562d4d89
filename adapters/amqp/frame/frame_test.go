package frame

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"entrepot/routing"
)

// [AMQP-2.3.5] frames in any pieces, and what is none.
func TestNext(t *testing.T) {
	whole := AppendEmpty(nil, 7, ChannelCloseOK)
	for cut := range len(whole) {
		if _, n, err := Next(whole[:cut], MinMax); n != 0 || err != nil {
			t.Errorf("%d bytes of a frame: %d, %v", cut, n, err)
		}
	}
	f, n, err := Next(append(whole, 1, 2, 3), MinMax)
	if err != nil || n != len(whole) || f.Kind != MethodKind || f.Channel != 7 {
		t.Errorf("%+v, %d, %v", f, n, err)
	}
	r := NewReader(f.Payload)
	if m := r.Method(); m != ChannelCloseOK || r.End() != nil {
		t.Errorf("%v, %v", m, r.End())
	}
	for title, b := range map[string][]byte{
		"larger than the limit":          {1, 0, 0, 0, 0, 0x10, 0},
		"4 GiB":                          {1, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"without the octet that ends it": {1, 0, 0, 0, 0, 0, 1, 9, 9},
		"an HTTP request [fault 63]":     []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		if _, _, err := Next(b, MinMax); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", title, err)
		}
	}
	if _, n, err := Next(AppendHeartbeat(nil), 8); n != 8 || err != nil {
		t.Errorf("a heartbeat: %d, %v", n, err)
	}
}

// A content header and its body.
func TestContent(t *testing.T) {
	b := BeginHeader(nil, 3, 5, Priority)
	b = End(append(b, 4), 0)
	b = EndBody(append(BeginBody(b, 3, 5), "hello"...))
	f, n, err := Next(b, MinMax)
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(f.Payload)
	h := ReadContentHeader(&r)
	if (h != ContentHeader{Class: BasicClass, Size: 5, Flags: Priority}) || r.Octet() != 4 || r.End() != nil {
		t.Errorf("%+v, %v", h, r.End())
	}
	if f, _, err = Next(b[n:], MinMax); err != nil || f.Kind != BodyKind || f.Channel != 3 || string(f.Payload) != "hello" {
		t.Errorf("%+v, %v", f, err)
	}
}

// everything is a table with every type of value.
func everything() routing.Headers {
	return routing.Headers{
		{Name: "t", Value: true}, {Name: "f", Value: false},
		{Name: "b", Value: int8(-5)}, {Name: "B", Value: uint8(200)},
		{Name: "s", Value: int16(-300)}, {Name: "u", Value: uint16(60_000)},
		{Name: "I", Value: int32(-70_000)}, {Name: "i", Value: uint32(4_000_000_000)},
		{Name: "l", Value: int64(math.MinInt64)},
		{Name: "float", Value: float32(1.5)}, {Name: "double", Value: -2.25},
		{Name: "D", Value: routing.Decimal{Scale: 3, Value: -12345}},
		{Name: "S", Value: "text"}, {Name: "S", Value: "the same name again"}, {Name: "", Value: "no name"},
		{Name: "x", Value: []byte{0, 1, 2}}, {Name: "V", Value: nil},
		{Name: "T", Value: time.Unix(1_700_000_000, 0)},
		{Name: "F", Value: routing.Headers{{Name: "in", Value: routing.Headers{{Name: "deeper", Value: int32(1)}}}}},
		{Name: "A", Value: []any{int32(1), "two", []any{true, nil}, routing.Headers{{Name: "k", Value: "v"}}}},
		{Name: "empty", Value: []any{}},
	}
}

// Every type that RabbitMQ's clients send comes back as it was, in its place.
func TestTableRoundTrip(t *testing.T) {
	b := AppendTable(nil, everything())
	r := NewReader(b)
	got := r.Table()
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, everything()) {
		t.Errorf("got  %v\nwant %v", got, everything())
	}
	if again := AppendTable(nil, got); !bytes.Equal(again, b) {
		t.Error("written otherwise the second time")
	}
}

// The letters, as RabbitMQ has them.
func TestValueLetters(t *testing.T) {
	for letter, c := range map[string]struct {
		bytes []byte
		want  any
	}{
		"b": {[]byte{0xff}, int8(-1)}, "B": {[]byte{0xff}, uint8(255)},
		"s": {[]byte{0xff, 0xff}, int16(-1)}, "u": {[]byte{0xff, 0xff}, uint16(65535)},
		"I": {[]byte{0xff, 0xff, 0xff, 0xff}, int32(-1)}, "i": {[]byte{0xff, 0xff, 0xff, 0xff}, uint32(math.MaxUint32)},
		"l": {bytes.Repeat([]byte{0xff}, 8), int64(-1)}, "L": {bytes.Repeat([]byte{0xff}, 8), int64(-1)},
		"t": {[]byte{2}, true}, "V": {nil, nil}, "D": {[]byte{2, 0, 0, 0, 5}, routing.Decimal{Scale: 2, Value: 5}},
		"S": {[]byte{0, 0, 0, 1, 'a'}, "a"}, "x": {[]byte{0, 0, 0, 1, 'a'}, []byte("a")},
	} {
		payload := append([]byte{1, 'k', letter[0]}, c.bytes...)
		r := NewReader(payload)
		got := r.Rest()
		if r.End() != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Value, c.want) {
			t.Errorf("%s: %v, %v", letter, got, r.End())
		}
	}
}

// What a table cannot hold is left out or turned into text, and never makes
// it unreadable.
// It shows fault 17.
func TestTableLeavesOut(t *testing.T) {
	long := strings.Repeat("n", 256)
	b := AppendTable(nil, routing.Headers{{Name: long, Value: 1}, {Name: "big", Value: uint64(math.MaxUint64)},
		{Name: "small", Value: uint64(5)}, {Name: "odd", Value: struct{}{}}})
	r := NewReader(b)
	got := r.Table()
	want := routing.Headers{{Name: "big", Value: "18446744073709551615"}, {Name: "small", Value: int64(5)}, {Name: "odd"}}
	if r.End() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, r.End())
	}
	if b := AppendShortText(nil, long); !bytes.Equal(b, []byte{0}) {
		t.Errorf("a short text that is too long: %q", b)
	}
}

func nest(depth int) any {
	var v any = "bottom"
	for i := range depth {
		if i%2 == 0 {
			v = []any{v}
		} else {
			v = routing.Headers{{Name: "k", Value: v}}
		}
	}
	return v
}

// fault 17: depth, lengths and numbers of values are bounded.
// It shows fault 8.
func TestHostileTables(t *testing.T) {
	deepest := AppendTable(nil, routing.Headers{{Name: "k", Value: nest(MaxNesting)}})
	r := NewReader(deepest)
	if r.Table(); r.End() != nil {
		t.Errorf("nested %d deep: %v", MaxNesting, r.End())
	}
	deep := []byte("V")
	for range 10_000 {
		deep = sized(append(append([]byte{'A'}, 0, 0, 0, 0), deep...), 1)
	}
	deep = append([]byte{1, 'k'}, deep...)
	many := append([]byte{1, 'k', 'A', 0, 0, 0x80, 0}, bytes.Repeat([]byte("V"), 0x8000)...)
	for title, payload := range map[string][]byte{
		"nested 10,000 deep":             deep,
		"a text of 4 GiB":                {1, 'k', 'S', 0xff, 0xff, 0xff, 0xff, 'a'},
		"bytes of 4 GiB":                 {1, 'k', 'x', 0xff, 0xff, 0xff, 0xff, 'a'},
		"a nested table of 4 GiB":        {1, 'k', 'F', 0xff, 0xff, 0xff, 0xff, 'a'},
		"an array of 4 GiB":              {1, 'k', 'A', 0xff, 0xff, 0xff, 0xff, 'V'},
		"too many values":                many,
		"a value in pieces":              {1, 'k', 'l', 0, 0},
		"a name without a value":         {1, 'k'},
		"a name in pieces":               {9, 'k'},
		"a type that is none":            {1, 'k', 'Z'},
		"a nested table that ends early": {1, 'k', 'F', 0, 0, 0, 2, 5, 'x'},
	} {
		r := NewReader(payload)
		list := r.Rest()
		if err := r.End(); !errors.Is(err, ErrSyntax) || len(list) > 1 {
			t.Errorf("%s: %v, %d values", title, err, len(list))
		}
	}
	r = NewReader([]byte{0xff, 0xff, 0xff, 0xff, 1})
	if r.Table(); !errors.Is(r.End(), ErrSyntax) {
		t.Errorf("a table of 4 GiB: %v", r.End())
	}
}

// A payload's length is what decides how much is allocated.
// It shows faults 2 and 17.
func TestNothingOnAStrangersWord(t *testing.T) {
	payload := append([]byte{1, 'k', 'S'}, 0x7f, 0xff, 0xff, 0xff, 'a')
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(payload)
		r.Rest()
	}); n > 4 {
		t.Errorf("%v allocations for 8 bytes", n)
	}
}

// Bytes that are left over, and fields after a fault.
func TestReaderFaults(t *testing.T) {
	r := NewReader([]byte{1, 2, 3})
	if r.Octet(); !errors.Is(r.End(), ErrSyntax) {
		t.Error("bytes left over")
	}
	r = NewReader([]byte{5, 'a'})
	if r.ShortText() != nil || r.Long() != 0 || r.LongLong() != 0 || r.Short() != 0 || r.Octet() != 0 || r.Table() != nil || len(r.Left()) != 0 || !r.Failed() {
		t.Error("values after a fault")
	}
	if !errors.Is(r.End(), ErrSyntax) {
		t.Error("no fault")
	}
}

func FuzzNext(f *testing.F) {
	f.Add(AppendEmpty(nil, 1, ChannelCloseOK))
	f.Add(AppendHeartbeat(nil))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; ; {
			fr, n, err := Next(rest, MinMax)
			if err != nil || n == 0 {
				return
			}
			if n > len(rest) || len(fr.Payload) != n-Overhead || n > MinMax {
				t.Fatalf("%+v takes %d of %d", fr, n, len(rest))
			}
			rest = rest[n:]
		}
	})
}

// What was read is written so that it is read the same.
func FuzzTable(f *testing.F) {
	f.Add(AppendTable(nil, everything()))
	f.Add(AppendTable(nil, routing.Headers{{Name: "k", Value: nest(MaxNesting)}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		list := r.Table()
		if r.End() != nil {
			return
		}
		wire := AppendTable(nil, list)
		r = NewReader(wire)
		again := r.Table()
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(AppendTable(nil, again), wire) {
			t.Errorf("%v became %v", list, again)
		}
	})
}
