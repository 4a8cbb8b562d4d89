package client

import (
	"bufio"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

const (
	connack5 = "\x20\x03\x00\x00\x00"
	connack3 = "\x20\x02\x00\x00"
)

func TestConnectRefused(t *testing.T) {
	for _, c := range []struct{ version, say, want string }{
		{"3.1.1", "\x20\x02\x00\x05", "connection refused: not authorized (0x05)"},
		{"3.1.1", "\x20\x02\x00\x01", "unacceptable protocol version (0x01)"},
		{"5", "\x20\x03\x00\x87\x00", "connection refused: not authorized (0x87)"},
		{"5", "\x20\x09\x00\x97\x06\x1F\x00\x03why", "quota exceeded (0x97): why"},
		{"5", "\x20\x03\x00\xF0\x00", "0xF0"},
		{"5", "\xD0\x00", "not an MQTT broker?"},
		{"5", "HTTP/1.1 400 Bad Request\r\n", "broker's packet"},
		{"5", "\x20\xFF\xFF\xFF\xFF\xFF\x01", "broker's packet"},
		{"5", "\x20\x7F\x00", "the broker closed the connection"},
		{"5", "", "the broker closed the connection"},
	} {
		o := options()
		o.Version = c.version
		// The version byte is the last of what is the same in all CONNECTs.
		address := script{steps: []step{{"\x00\x04MQTT", c.say}}}.start(t)
		_, err := Dial(t.Context(), URL{Protocol: MQTT, Address: address}, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %s", c.say, err, c.want)
		}
	}
}

func TestPublishRefused(t *testing.T) {
	for _, c := range []struct {
		name, version string
		qos           int
		connack, say  string
		want, note    string
	}{
		{"not authorized", "5", 1, connack5, "\x40\x03\x00\x01\x87", "message refused: not authorized (0x87)", ""},
		{"no subscriber", "5", 1, connack5, "\x40\x03\x00\x01\x10", "", "no subscriber matched"},
		{"at PUBREC", "5", 2, connack5, "\x50\x03\x00\x01\x97", "message refused: quota exceeded (0x97)", ""},
		{"wrong packet", "5", 1, connack5, "\x40\x02\x00\x09", "the broker answers with Puback of packet 9, not Puback of 1", ""},
		{"closed", "3.1.1", 1, connack3, "", "the broker closed the connection", ""},
		{"disconnected", "5", 1, connack5, "\xE0\x02\x8B\x00", "the broker ended the connection: server shutting down (0x8B)", ""},
		{"maximum QoS", "5", 2, "\x20\x05\x00\x00\x02\x24\x01", "", "the broker takes QoS 1 at most", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var notes []string
			o := options()
			o.Version = c.version
			o.Note = func(n string) { notes = append(notes, n) }
			steps := []step{{"\x00\x04MQTT", c.connack}}
			if c.name != "maximum QoS" {
				steps = append(steps, step{"payload", c.say})
			}
			conn := dial(t, MQTT, script{steps: steps}.start(t), o)
			err := conn.Publish(t.Context(), Message{Topic: "a", Payload: []byte("payload"), QoS: c.qos})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if strings.Join(notes, "") != c.note {
				t.Errorf("notes %q", notes)
			}
			_ = conn.Close() // the other side may be gone
		})
	}
}

// At QoS 0 a refusal comes as a DISCONNECT, while the client says good-bye.
func TestRefusalAtQoS0(t *testing.T) {
	for _, until := range []string{"payload", "payload\xE0\x02\x00\x00"} {
		address := script{hold: true, steps: []step{{"\x00\x04MQTT", connack5}, {until, "\xE0\x02\x87\x00"}}}.start(t)
		conn := dial(t, MQTT, address, options())
		if err := conn.Publish(t.Context(), Message{Topic: "a", Payload: []byte("payload")}); err != nil {
			t.Fatal(err)
		}
		if until == "payload" {
			_ = conn.(*mqttConn).awaitEnd(t) // Close shall meet a connection that has ended
		}
		if err := conn.Close(); err == nil || !strings.Contains(err.Error(), "not authorized") {
			t.Errorf("refused after %q: error %v", until, err)
		}
	}
}

func TestSubscribeRefused(t *testing.T) {
	var notes []string
	o := options()
	o.Note = func(n string) { notes = append(notes, n) }
	address := script{steps: []step{{"\x00\x04MQTT", connack5}, {"b/#\x09", "\x90\x05\x00\x01\x00\x00\x8F"}}}.start(t)
	conn := dial(t, MQTT, address, o)
	err := conn.Subscribe(t.Context(), Interest{Topics: []string{"a", "b/#"}, QoS: 1}, func() { t.Error("granted") }, nil)
	if err == nil || !strings.Contains(err.Error(), "subscription to b/# refused: topic filter invalid (0x8F)") {
		t.Errorf("error %v", err)
	}
	if strings.Join(notes, "") != "a was granted QoS 0" {
		t.Errorf("notes %q", notes)
	}
	_ = conn.Close() // the other side is gone
}

// [MQTT-4.3.3]: a QoS 2 message that comes again before its PUBREL is handled
// once. A message may come before the SUBACK (3.8.4).
func TestQoS2ComesAgain(t *testing.T) {
	const again = "\x3C\x08\x00\x01a\x00\x07\x00xx"
	address := script{hold: true, steps: []step{
		{"\x00\x04MQTT", connack5},
		{"a\x0A", "\x34\x08\x00\x01a\x00\x07\x00xx\x90\x04\x00\x01\x00\x02"},
		{"\x50\x02\x00\x07", again},
		{"\x50\x02\x00\x07", "\x62\x02\x00\x07"},
		{"\x70\x02\x00\x07", "\x30\x06\x00\x01a\x00ok"},
	}}.start(t)
	conn := dial(t, MQTT, address, options())
	var got []string
	err := conn.Subscribe(t.Context(), Interest{Topics: []string{"a"}, QoS: 2}, func() {}, func(m Message) (bool, error) {
		got = append(got, string(m.Payload))
		return string(m.Payload) == "ok", nil
	})
	if err != nil || strings.Join(got, " ") != "xx ok" {
		t.Errorf("%q, %v", got, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// [MQTT-2.2.1-3]: packet ids are not 0.
func TestPacketIDs(t *testing.T) {
	c := &mqttConn{}
	for range 70_000 {
		if c.nextID() == 0 {
			t.Fatal("0")
		}
	}
	if c.lastID != 70_000-65_535 {
		t.Errorf("last %d", c.lastID)
	}
}

// Keep-alive is the broker's word where it has one ([MQTT-3.2.2-21]), and a
// PINGREQ goes out in time.
func TestServerKeepAlive(t *testing.T) {
	address := script{hold: true, steps: []step{
		{"\x00\x04MQTT", "\x20\x06\x00\x00\x03\x13\x00\x01"},
		{"\xC0\x00", "\xD0\x00"},
		{"\xC0\x00", "\xE0\x02\x8B\x00"},
	}}.start(t)
	conn := dial(t, MQTT, address, options())
	err := conn.(*mqttConn).awaitEnd(t)
	if err == nil || !strings.Contains(err.Error(), "server shutting down") {
		t.Errorf("error %v", err)
	}
	_ = conn.Close() // the other side said good-bye
}

func (c *mqttConn) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case <-c.gone:
		return c.err
	case <-time.After(limit):
		return errors.New("the connection does not end")
	}
}

// A length that the broker only claims costs no memory.
func TestPacketGrowsByWhatArrives(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readPacket(bufio.NewReader(strings.NewReader("\x30\xFF\xFF\xFF\x7F\x00")), 4)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errClosed) || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("error %v, %d bytes", err, after.TotalAlloc-before.TotalAlloc)
	}
}

func TestNotForAClient(t *testing.T) {
	if _, err := encodePacket(packet(packets.Connack), 5); err == nil {
		t.Error("a client sent CONNACK")
	}
	if _, err := readPacket(bufio.NewReader(strings.NewReader("\x82\x00")), 5); err == nil {
		t.Error("a client took SUBSCRIBE")
	}
}

func FuzzReadPacket(f *testing.F) {
	for _, s := range []string{connack3, connack5, "\x34\x08\x00\x01a\x00\x07\x00xx", "\x90\x04\x00\x01\x00\x02", "\xE0\x02\x8B\x00", "\xD0\x00"} {
		f.Add([]byte(s), byte(5))
		f.Add([]byte(s), byte(4))
	}
	f.Fuzz(func(_ *testing.T, b []byte, version byte) {
		in := bufio.NewReader(strings.NewReader(string(b)))
		for {
			if _, err := readPacket(in, version); err != nil {
				return
			}
		}
	})
}
