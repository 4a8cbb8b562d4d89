package stomp

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// FuzzBytes: bytes that are written as text are read back, and text that is read is
// written as it was.
func FuzzBytes(f *testing.F) {
	f.Add([]byte("plain"), "base64:AAE=")
	f.Add([]byte{0, 255}, "base64:plain")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		if got := parseBytes(printBytes(b)); !bytes.Equal(got, b) {
			t.Errorf("%q is written %q and read %q", b, printBytes(b), got)
		}
		if isPlainText([]byte(text)) || len(parseBytes(text)) != len(text) {
			if got := printBytes(parseBytes(text)); got != text {
				t.Errorf("%q is read %q and written %q", text, parseBytes(text), got)
			}
		}
	})
}

// FuzzNamesOnTheWire: application headers keep their names over the wire, and none is
// taken for a header of MESSAGE.
func FuzzNamesOnTheWire(f *testing.F) {
	for _, name := range []string{"ack", "x-app-ack", "x-app-x-app-ack", "x-app-mine", "x-app-"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		wire := toWire(name)
		if got := fromWire(wire); got != name {
			t.Errorf("%q travels as %q and becomes %q", name, wire, got)
		}
		if reservedName(name) && wire == name {
			t.Errorf("%q travels under its own name", name)
		}
		if got := toWire(fromWire(name)); !reservedName(name) && got != name {
			t.Errorf("%q comes in and goes out as %q", name, got)
		}
	})
}

func TestPrintValue(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{"text", "text"}, {[]byte("bytes"), "bytes"}, {[]byte{0xFF}, "base64:/w=="}, {nil, ""},
		{true, "true"}, {int8(-1), "-1"}, {int16(2), "2"}, {int32(3), "3"}, {int64(-4), "-4"},
		{uint8(5), "5"}, {uint16(6), "6"}, {uint32(7), "7"}, {uint64(1 << 63), "9223372036854775808"},
		{float32(0.1), "0.1"}, {2.5, "2.5"},
		{routing.Decimal{Scale: 2, Value: 314}, "3.14"}, {routing.Decimal{Scale: 3, Value: -5}, "-0.005"},
		{routing.Decimal{Value: 7}, "7"},
		{time.Unix(0, 0), "1970-01-01T00:00:00Z"},
		{routing.Headers{{Name: "a", Value: int32(1)}, {Name: "b", Value: []any{"x", []byte{0}, routing.Decimal{Scale: 1, Value: 5}}},
			{Name: "a", Value: "second"}}, `{"a":1,"b":["x","base64:AA==",0.5]}`},
		{[]any{nil, true}, "[null,true]"},
	} {
		if got := printValue(c.value); got != c.want {
			t.Errorf("%#v: %q, not %q", c.value, got, c.want)
		}
	}
	var deep any = "x"
	for range 10_000 {
		deep = []any{deep}
	}
	if got := printValue(deep); len(got) > 200 {
		t.Errorf("a deep table: %d bytes", len(got))
	}
}

// TestForeignMessage [names 4, faults 97, 99, 100 and 103]: a message with everything that
// other protocols can put into it, as each version of STOMP gets it.
func TestForeignMessage(t *testing.T) {
	m := core.NewMessage(3)
	copy(m.Payload, "a\x00b")
	to, err := routing.ParseTopic("plant/v1.0/a:b\\c")
	if err != nil {
		t.Fatal(err)
	}
	reply, err := core.QueueAddress("answers")
	if err != nil {
		t.Fatal(err)
	}
	m.Exchange, m.Topic, m.Guarantee = core.TopicExchange, to, core.Once
	m.Props = &core.Properties{
		ContentType: "text/x\ncontent-length:0", ContentEncoding: "gzip", Text: true,
		Correlation: []byte{1, 0xFF}, ReplyTo: reply, HasPriority: true, Priority: 200,
		MessageID: "id\r\n\r\n", Type: "t\x00SEND", AppID: "app", Timestamp: time.Unix(1700000000, 5),
		Headers: routing.Headers{
			{Name: "destination", Value: "/queue/evil"}, {Name: "content-length", Value: "0"}, {Name: "ack", Value: "1"},
			{Name: "evil\n\nbody", Value: "x"}, {Name: "colon:ack", Value: "y"}, {Name: "", Value: "z"},
			{Name: "nul\x00", Value: "n"}, {Name: " destination", Value: "s"},
			{Name: "value", Value: "1\n2\r3:4\\5\x006"}, {Name: "number", Value: int64(5)}, {Name: "again", Value: "1"},
			{Name: "again", Value: "2"}},
	}
	want := map[version]string{
		v12: `MESSAGE\nsubscription:0\nmessage-id:1-1-1\ndestination:/topic/plant.v1%2E0.a\\cb\\\\c\npersistent:true` +
			`\ncontent-type:text/x\\ncontent-length\\c0\ncontent-encoding:gzip\nx-message-id:id\\r\\n\\r\\n\ntype:t` + "\uFFFD" + `SEND\napp-id:app` +
			`\ncorrelation-id:base64\\cAf8=\nreply-to:/queue/answers\npriority:200\ntimestamp:1700000000` +
			`\nx-app-destination:/queue/evil\nx-app-content-length:0\nx-app-ack:1\nevil\\n\\nbody:x\ncolon\\cack:y\n destination:s` +
			`\nvalue:1\\n2\\r3\\c4\\\\5` + "\uFFFD" + `6\nnumber:5\nagain:1\nagain:2\ncontent-length:3\n\na` + "\\x00" + `b` + "\\x00",
		v11: `MESSAGE\nsubscription:0\nmessage-id:1-1-1\ndestination:/topic/plant.v1%2E0.a\\cb\\\\c\npersistent:true` +
			`\ncontent-type:text/x\\ncontent-length\\c0\ncontent-encoding:gzip\nx-message-id:id \\n \\n\ntype:t` + "\uFFFD" + `SEND\napp-id:app` +
			`\ncorrelation-id:base64\\cAf8=\nreply-to:/queue/answers\npriority:200\ntimestamp:1700000000` +
			`\nx-app-destination:/queue/evil\nx-app-content-length:0\nx-app-ack:1\nevil\\n\\nbody:x\ncolon\\cack:y\n destination:s` +
			`\nvalue:1\\n2 3\\c4\\\\5` + "\uFFFD" + `6\nnumber:5\nagain:1\nagain:2\ncontent-length:3\n\na` + "\\x00" + `b` + "\\x00",
		v10: `MESSAGE\nsubscription:0\nmessage-id:1-1-1\ndestination:/topic/plant.v1%2E0.a:b\\c\npersistent:true` +
			`\ncontent-type:text/x content-length:0\ncontent-encoding:gzip\nx-message-id:id    \ntype:t` + "\uFFFD" + `SEND\napp-id:app` +
			`\ncorrelation-id:base64:Af8=\nreply-to:/queue/answers\npriority:200\ntimestamp:1700000000` +
			`\nx-app-destination:/queue/evil\nx-app-content-length:0\nx-app-ack:1` +
			`\nvalue:1 2 3:4\\5` + "\uFFFD" + `6\nnumber:5\nagain:1\nagain:2\ncontent-length:3\n\na` + "\\x00" + `b` + "\\x00",
	}
	for v := v10; v <= v12; v++ {
		synctest.Test(t, func(t *testing.T) {
			tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
			tr.start()
			defer tr.end()
			a := tr.client("a")
			tr.send(a, "CONNECT\naccept-version:"+v.String()+"\n\n^@SUBSCRIBE\nid:0\ndestination:/topic/#\n\n^@")
			a.got = nil
			tr.broker.PublishOwn(m)
			synctest.Wait()
			if got := unquoted(a.got); got != want[v] {
				t.Errorf("%v:\n%s\nnot\n%s", v, got, want[v])
			}
		})
	}
}

// unquoted writes bytes on one line.
func unquoted(b []byte) string {
	b = bytes.ReplaceAll(b, []byte(`\`), []byte(`\\`))
	b = bytes.ReplaceAll(b, []byte("\n"), []byte(`\n`))
	return string(bytes.ReplaceAll(b, []byte{0}, []byte(`\x00`)))
}
