package wamp

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"entrepot/core"
)

// rawArguments encodes arguments for a test.
func rawArguments(code uint8, args list, kwargs dict) arguments {
	f := formatOf(code)
	a := arguments{code: code}
	if args != nil {
		a.args = f.encode(nil, args)
	}
	if kwargs != nil {
		a.kwargs = f.encode(nil, kwargs)
	}
	return a
}

// The first table of names.md, 6, from each encoding.
func TestArgumentsToPayload(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, c := range []struct {
		args          list
		kwargs        dict
		payload, kind string
	}{
		{list{"héllo \"x\"\n"}, nil, "héllo \"x\"\n", typeText},
		{list{""}, nil, "", typeText},
		{list{every}, nil, string(every), typeBinary},
		{list{[]byte{}}, nil, "", typeBinary},
		{list{int64(7)}, nil, "7", typeJSON},
		{list{1.0}, nil, "1.0", typeJSON},
		{list{nil}, nil, "null", typeJSON},
		{list{list{int64(1), "a"}}, nil, `[1,"a"]`, typeJSON},
		{list{dict{{"k", []byte{1, 2}}}}, nil, `{"k":"\u0000AQI="}`, typeJSON},
		{list{int64(1), "b"}, nil, `{"args":[1,"b"],"kwargs":{}}`, typeWAMP},
		{list{"a"}, dict{{"k", true}}, `{"args":["a"],"kwargs":{"k":true}}`, typeWAMP},
		{list{}, nil, `{"args":[],"kwargs":{}}`, typeWAMP},
		{nil, nil, `{"args":[],"kwargs":{}}`, typeWAMP},
		{nil, dict{{"k", every[:3]}}, `{"args":[],"kwargs":{"k":"\u0000AAEC"}}`, typeWAMP},
	} {
		for code := range uint8(3) {
			p := carry(rawArguments(code, c.args, c.kwargs), nil)
			if string(p.Payload) != c.payload || p.ContentType != c.kind {
				t.Errorf("%d: %v %v: %q %s, want %q %s", code, c.args, c.kwargs, p.Payload, p.ContentType, c.payload, c.kind)
			}
			// WAMP to WAMP is exact, also when only the payload was kept.
			want := [2]any{append(list{}, c.args...), c.kwargs}
			for to := range uint8(encodings) {
				for _, native := range []any{p.Native, nil} {
					m := p.Message
					props := p.Properties
					props.Native = native
					m.Props = &props
					if got := received(t, to, &m); !reflect.DeepEqual(got, want) {
						t.Errorf("%d to %d (native %v): %#v, want %#v", code, to, native != nil, got, want)
					}
				}
			}
		}
	}
}

// received is what a client of an encoding gets of a message.
func received(t *testing.T, code uint8, m *core.Message) [2]any {
	t.Helper()
	e, _ := encodingOf(Names()[code])
	buf := e.open(nil, 36, 1+argumentsCount(m))
	buf = e.seal(e.appendArguments(buf, m), 0)
	b, _, err := e.cut(buf[frameHead(buf[1])-4:])
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.skip(b, 0); err != nil || n != len(b) {
		t.Fatalf("%x: %d, %v", b, n, err)
	}
	all := e.decode(b).(list)
	got := [2]any{all[1], dict(nil)}
	if len(all) > 2 {
		got[1] = all[2]
	}
	return got
}

// The second table, with all byte values, to each encoding.
func TestPayloadToArguments(t *testing.T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	type one struct {
		kind    string
		payload []byte
		want    any
	}
	cases := []one{
		{"", []byte(`{"a":1}`), dict{{"a", int64(1)}}},
		{"", []byte(` [1,2] `), list{int64(1), int64(2)}},
		{"", []byte("text"), "text"},
		{"", []byte{}, ""},
		{"", every, every},
		{"", every[:1], every[:1]}, // a string of NUL would be binary in JSON
		{"", []byte("{broken"), "{broken"},
		{"text/html", []byte("<p>é"), "<p>é"},
		{"text/plain", every, every},
		{"text/plain; charset=utf-8", []byte(""), ""},
		{"application/json", []byte("3.5"), 3.5},
		{"application/json; charset=utf-8", []byte(`"s"`), "s"},
		{"application/json", []byte("{"), []byte("{")},
		{"application/cbor", []byte("\x82\x01\x61a"), list{int64(1), "a"}},
		{"application/cbor", []byte("\x82\x01"), []byte("\x82\x01")},
		{"application/cbor", []byte("\x20"), int64(-1)},
		{"application/msgpack", []byte("\x92\x01\xa1a"), list{int64(1), "a"}},
		{"application/msgpack", []byte("\x20"), int64(32)},
		{"application/msgpack", []byte("\x01\x02"), []byte("\x01\x02")},
		{"application/octet-stream", []byte("abc"), []byte("abc")},
		{"image/png", every, every},
	}
	for i := range 256 {
		b := []byte{byte(i), 'x'}
		want := any(string(b))
		if i == 0 || i >= 0x80 {
			want = b
		}
		cases = append(cases, one{"", b, want}, one{"application/octet-stream", b, b})
	}
	for _, c := range cases {
		for to := range uint8(encodings) {
			m := &core.Message{Payload: c.payload, Props: &core.Properties{ContentType: c.kind}}
			if c.kind == "" {
				m.Props = nil
			}
			got := received(t, to, m)[0].(list)
			if b, ok := got[0].([]byte); ok && len(b) == 0 {
				got[0] = []byte{}
			}
			if len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("%q %q to %d: %#v, want %#v", c.kind, c.payload, to, got, c.want)
			}
		}
	}
}

// Who says that the payload is encoded gets it as it is.
func TestEncodedPayloads(t *testing.T) {
	m := &core.Message{Payload: []byte("{}"), Props: &core.Properties{ContentType: "application/json", ContentEncoding: "gzip"}}
	if got := received(t, 0, m)[0].(list)[0]; !bytes.Equal(got.([]byte), []byte("{}")) {
		t.Error(got)
	}
}

func TestBatches(t *testing.T) {
	j, _ := encodingOf("wamp.2.json.batched")
	a, rest, err := j.cut([]byte("[1]\x1e[2]\x1e"))
	b, end, err2 := j.cut(rest)
	if string(a) != "[1]" || string(b) != "[2]" || len(end) != 0 || err != nil || err2 != nil {
		t.Error(a, b, end, err, err2)
	}
	m, _ := encodingOf("wamp.2.msgpack.batched")
	for _, bad := range []string{"\x00\x00\x00", "\x00\x00\x00\x02\x90", "\xff\xff\xff\xff"} {
		if _, _, err := m.cut([]byte(bad)); err == nil {
			t.Errorf("%x is a batch", bad)
		}
	}
	if _, ok := encodingOf("wamp.2.flatbuffers"); ok {
		t.Error("an unknown sub-protocol")
	}
}

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, edit := range map[string]func(*Config){
		"max_message":    func(c *Config) { c.MaxMessage = 1 },
		"prefetch":       func(c *Config) { c.Prefetch = 0 },
		"realms":         func(c *Config) { c.Realms = nil },
		`"a b"`:          func(c *Config) { c.Realms = []string{"*", "a b"} },
		"limits":         func(c *Config) { c.Limits.MaxPending = 0 },
		"max_testaments": func(c *Config) { c.MaxTestaments = -1 },
		"queue_bytes":    func(c *Config) { c.QueueBytes = 0 },
	} {
		c := DefaultConfig()
		edit(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
