package wamp

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gammazero/nexus/v3/transport/serialize"
	"github.com/gammazero/nexus/v3/wamp"
)

func formats() map[string]format {
	return map[string]format{"json": jsonFormat{}, "msgpack": msgpackFormat{}, "cbor": cborFormat{}}
}

// oracle is nexus's serializer of a format.
func oracle(name string) serialize.Serializer {
	switch name {
	case "json":
		return &serialize.JSONSerializer{}
	case "msgpack":
		return &serialize.MessagePackSerializer{}
	}
	return &serialize.CBORSerializer{}
}

// randomValue makes any value that all formats carry.
func randomValue(r *rand.Rand, depth int) any {
	n := 9
	if depth > 4 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return int64(r.Uint64() >> r.IntN(64))
	case 3:
		return -int64(r.Uint64() >> (1 + r.IntN(63)))
	case 4:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
	case 5:
		return randomText(r)
	case 6:
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	case 7:
		all := list{}
		for range r.IntN(5) {
			all = append(all, randomValue(r, depth+1))
		}
		return all
	}
	all := dict{}
	for range r.IntN(5) {
		all = append(all, member{randomText(r), randomValue(r, depth+1)})
	}
	return all
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(50) {
		b.WriteString([]string{"a", "é", "\"", "\\", "\n", "\x01", "€", "𝄞", " ", "x"}[r.IntN(10)])
	}
	return "t" + b.String()
}

// What is encoded is sound, and decodes to the same.
func TestFormatsKeepValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, f := range formats() {
		for range 1000 {
			v := randomValue(r, 0)
			raw := f.encode(nil, v)
			if n, err := f.skip(raw, 0); err != nil || n != len(raw) {
				t.Fatalf("%s: %#v: skipped %d of %d: %v", name, v, n, len(raw), err)
			}
			if got := f.decode(raw); !reflect.DeepEqual(got, v) {
				t.Fatalf("%s: %#v became %#v", name, v, got)
			}
			for cut := range min(len(raw), 200) {
				if n, err := f.skip(raw[:cut], 0); err == nil && n > cut {
					t.Fatalf("%s: %d bytes of %x are sound", name, cut, raw)
				}
			}
		}
	}
}

// nexus reads what this package writes, and the other way round.
func TestFormatsAgreeWithNexus(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, f := range formats() {
		for range 300 {
			args := list{randomText(r), int64(r.IntN(1 << 30)), r.Float64(), list{true, nil}, dict{{"k", randomText(r)}}}
			raw := f.encode(nil, list{int64(wamp.CALL), int64(7), dict{{"timeout", int64(5)}}, "com.p", args})
			m, err := oracle(name).Deserialize(raw)
			if err != nil {
				t.Fatal(name, err)
			}
			call, ok := m.(*wamp.Call)
			if !ok || call.Request != 7 || call.Procedure != "com.p" {
				t.Fatalf("%s: %#v", name, m)
			}
			again, err := oracle(name).Serialize(m)
			if err != nil {
				t.Fatal(name, err)
			}
			back, ok := f.decode(again).(list)
			if n, err := f.skip(again, 0); err != nil || n != len(again) || !ok {
				t.Fatal(name, n, err)
			}
			if !reflect.DeepEqual(back[4], any(args)) {
				t.Fatalf("%s: %#v became %#v", name, args, back[4])
			}
		}
	}
}

// fault 21: depth bombs, lengths that are not there.
func TestHostileValues(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		want      error
	}{
		{"json", strings.Repeat("[", 100_000), errDeep},
		{"json", strings.Repeat(`{"a":`, 100_000), errDeep},
		{"json", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), nil},
		{"msgpack", strings.Repeat("\x91", 100_000), errDeep},
		{"msgpack", strings.Repeat("\x81\xa0", 100_000), errDeep},
		{"cbor", strings.Repeat("\x81", 100_000), errDeep},
		{"cbor", strings.Repeat("\x9f", 100_000), errDeep},
		{"cbor", strings.Repeat("\xc1", 100_000), errDeep},
		{"msgpack", "\xdd\xff\xff\xff\xff", errShort},
		{"msgpack", "\xdf\xff\xff\xff\xff\x00", errShort},
		{"msgpack", "\xdb\xff\xff\xff\xffabc", errShort},
		{"msgpack", "\xc6\xff\xff\xff\xffabc", errShort},
		{"msgpack", "\xc9\xff\xff\xff\xff\x01abc", errShort},
		{"msgpack", "\xc1", errBad},
		{"msgpack", "\xa1\xff", errText},
		{"cbor", "\x9b\xff\xff\xff\xff\xff\xff\xff\xff", errShort},
		{"cbor", "\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00", errShort},
		{"cbor", "\x7b\xff\xff\xff\xff\xff\xff\xff\xffabc", errShort},
		{"cbor", "\x5f\x41a", errShort},
		{"cbor", "\x5f\x61a\xff", errBad},
		{"cbor", "\x5f\x5f\xff\xff", errBad},
		{"cbor", "\xbf\x01\xff", errBad},
		{"cbor", "\x1c", errBad},
		{"cbor", "\xff", errBad},
		{"cbor", "\x61\xff", errText},
		{"json", `"\x"`, errBad}, {"json", `"\u12g4"`, errBad}, {"json", "\"\n\"", errBad}, {"json", `"abc`, errShort},
		{"json", "01", errRest}, {"json", "-", errBad}, {"json", "1.", errBad}, {"json", "1e", errBad}, {"json", "+1", errBad},
		{"json", "[1,]", errBad}, {"json", "[1 2]", errBad}, {"json", "{1:2}", errBad}, {"json", `{"a" 1}`, errBad},
		{"json", `{"a":1,}`, errBad}, {"json", "nul", errBad}, {"json", "", errShort}, {"json", "NaN", errBad},
	} {
		n, err := formats()[c.name].skip([]byte(c.raw), 0)
		if err == nil && n != len(c.raw) {
			err = errRest
		}
		if c.raw == "01" {
			c.want = errBad
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s %.30q: %v, want %v", c.name, c.raw, err, c.want)
		}
	}
}

func TestCBORForms(t *testing.T) {
	for raw, want := range map[string]any{
		"\xf9\x3c\x00": 1.0, "\xf9\xc4\x00": -4.0, "\xf9\x00\x01": 5.960464477539063e-08, "\xf9\x7c\x00": math.Inf(1),
		"\xfa\x47\xc3\x50\x00": 100000.0, "\x7f\x61a\x61b\xff": "ab", "\x9f\x01\x02\xff": list{int64(1), int64(2)},
		"\xbf\x61a\x01\xff": dict{{"a", int64(1)}}, "\xc0\x61a": "a", "\xf7": nil, "\x1b\xff\xff\xff\xff\xff\xff\xff\xff": uint64(math.MaxUint64),
		"\xa1\x05\x06": dict{{"5", int64(6)}},
	} {
		f := cborFormat{}
		if n, err := f.skip([]byte(raw), 0); err != nil || n != len(raw) {
			t.Errorf("%x: %d, %v", raw, n, err)
			continue
		}
		if got := f.decode([]byte(raw)); !reflect.DeepEqual(got, want) {
			t.Errorf("%x: %#v, want %#v", raw, got, want)
		}
	}
}

// FuzzFormats: what skip finds sound decodes, and comes back from every format.
func FuzzFormats(f *testing.F) {
	f.Add([]byte(`[16,1,{},"a",[1,2.5,"x",null]]`))
	f.Add([]byte("\x95\x10\x01\x80\xa1a\x91\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x85\x10\x01\xa0\x61a\x9f\xf9\x3c\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, f := range formats() {
			if name == "json" && !json.Valid(b) {
				if n, err := f.skip(b, 0); err == nil && space(b, n) == len(b) {
					t.Fatalf("json: %q is sound", b)
				}
				continue
			}
			n, err := f.skip(b, 0)
			if err != nil {
				continue
			}
			v := f.decode(b[:n])
			for other, g := range formats() {
				raw := g.encode(nil, v)
				if m, err := g.skip(raw, 0); err != nil || m != len(raw) {
					t.Fatalf("%s to %s: %x to %x: %v", name, other, b[:n], raw, err)
				}
			}
			var into [8][]byte
			if k, err := f.elements(b[:n], into[:]); err == nil {
				for i := range min(k, 8) {
					f.token(into[i], nil)
				}
			}
		}
	})
}

// FuzzSession: no message ends anything but its own connection.
func FuzzSession(f *testing.F) {
	f.Add([]byte(`[48,1,{},"a",[1]]`), byte(0))
	f.Add([]byte("\x95\x10\x01\x80\xa1a\x91\x01"), byte(1))
	f.Add([]byte("\x85\x10\x01\xa0\x61a\x81\x01"), byte(2))
	f.Fuzz(func(t *testing.T, b []byte, which byte) {
		e, _ := encodingOf(Names()[int(which)%encodings])
		var m message
		if bytes.IndexByte(b, 0xFF) >= 0 && e.text {
			return // frames checks UTF-8
		}
		part, _, err := e.cut(b)
		if err != nil || e.parse(part, &m) != nil {
			return
		}
		_, _ = e.id(&m, 1)
		_, _ = e.dict(&m, 2)
		_, _ = e.uri(&m, 3, nil)
		a, err := e.payload(&m, 4)
		if err != nil {
			return
		}
		p := carry(a, nil)
		for i := range encodings {
			to, _ := encodingOf(Names()[i])
			buf := to.open(nil, wamp.EVENT, 4+argumentsCount(&p.Message))
			buf = to.details(to.uint(to.uint(buf, 1), 2), nil)
			buf = to.seal(to.appendArguments(buf, &p.Message), 0)
			head := frameHead(buf[1]) - 4
			msg, _, err := to.cut(buf[head:])
			if err != nil {
				t.Fatal(err)
			}
			var back message
			if err := to.parse(msg, &back); err != nil {
				t.Fatalf("%x: %v", msg, err)
			}
		}
	})
}
