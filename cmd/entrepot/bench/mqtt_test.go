package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

func mqttOf(qos int, version string) *mqtt {
	o := DefaultOptions()
	o.QoS, o.MQTTVersion = qos, version
	return newMqtt(endpoint{protocol: protocolMQTT}, &o)
}

func TestMqttFrames(t *testing.T) {
	payload := "0000000000000000"
	tests := []struct {
		qos      int
		version  string
		want     string
		packetID int
	}{
		{0, "3.1.1", "\x30\x19\x00\x07bench/0" + payload, 0},
		{1, "3.1.1", "\x32\x1B\x00\x07bench/0\x00\x00" + payload, 11},
		{2, "3.1.1", "\x34\x1B\x00\x07bench/0\x00\x00" + payload, 11},
		{0, "5", "\x30\x1A\x00\x07bench/0\x00" + payload, 0},
		{1, "5", "\x32\x1C\x00\x07bench/0\x00\x00\x00" + payload, 11},
	}
	for _, tt := range tests {
		f := mqttOf(tt.qos, tt.version).frame("bench/0", 16)
		if string(f.bytes) != tt.want || f.packetID != tt.packetID || f.payload != len(tt.want)-16 {
			t.Errorf("QoS %d, %s: %q, id at %d, payload at %d", tt.qos, tt.version, f.bytes, f.packetID, f.payload)
		}
	}
}

func TestBlockNumbersItsRows(t *testing.T) {
	b := newBlock(mqttOf(1, "3.1.1").frame("a/0", 30), 3, 5, 77)
	rows := b.number(65_534, 2)
	if len(rows) != 2*b.stride {
		t.Fatalf("%d bytes for 2 rows of %d", len(rows), b.stride)
	}
	for i, id := range []uint16{65_535, 1} { // [MQTT-2.3.1-1]: never 0
		row := rows[i*b.stride:]
		if got := binary.BigEndian.Uint16(row[b.packetID:]); got != id {
			t.Errorf("row %d: packet id %d, want %d", i, got, id)
		}
		if p, run := publisherOf(binary.BigEndian.Uint64(row[b.payload:])); p != 5 || run != 77 {
			t.Errorf("row %d: publisher %d, run %d", i, p, run)
		}
		if seq := getDigits(row[b.payload+8:]); seq != uint64(65_534+i) {
			t.Errorf("row %d: number %d", i, seq)
		}
	}
	b.stamp(1, 123)
	if got := getDigits(rows[b.stride+b.payload+16:]); got != 123 {
		t.Errorf("stamp %d", got)
	}
}

// inPieces gives the scanner the bytes in every way to cut them once, and one
// by one. check looks at what came of each.
func inPieces(t *testing.T, whole []byte, fresh func() (scanner, *link, func() string)) {
	t.Helper()
	feed := func(cuts ...int) string {
		scan, l, state := fresh()
		var held []byte
		from := 0
		for _, to := range append(cuts, len(whole)) {
			held = append(held, whole[from:to]...)
			from = to
			n, err := scan(held)
			if err != nil {
				t.Fatalf("cut at %v: %v", cuts, err)
			}
			held = held[n:]
		}
		if len(held) > 0 {
			t.Fatalf("cut at %v: %d bytes are left", cuts, len(held))
		}
		return state() + fmt.Sprintf(" %q", l.out)
	}
	want := feed()
	var each []int
	for i := 1; i < len(whole); i++ {
		each = append(each, i)
		if got := feed(i); got != want {
			t.Fatalf("cut at %d: %s, want %s", i, got, want)
		}
	}
	if got := feed(each...); got != want {
		t.Fatalf("byte by byte: %s, want %s", got, want)
	}
}

func (s *subscriber) state() string {
	f := &s.flows[0]
	return fmt.Sprintf("delivered %d, late %d, twice %d, foreign %d, shown %d", f.delivered(), f.late, f.twice, s.foreign, f.progress.got.Load())
}

func TestMqttDeliveries(t *testing.T) {
	for _, version := range []string{"3.1.1", "5"} {
		for qos := range 3 {
			m := mqttOf(qos, version)
			b := newBlock(m.frame("bench/0", 200), 3, 0, 9)
			whole := bytes.Clone(b.number(0, 3))
			whole = append(whole, 0xD0, 0) // PINGRESP
			whole = append(whole, mqttOf(0, "3.1.1").packet(mqttPublish, m.properties([]byte("\x00\x01x")))...)
			if qos == 2 {
				whole = append(whole, mqttPubrel, 2, 0, 1)
			}
			inPieces(t, whole, func() (scanner, *link, func() string) {
				s := newSubscriber(&link{}, 9, 0, 1)
				return m.deliveries(s), s.link, s.state
			})
			s := newSubscriber(&link{}, 9, 0, 1)
			if _, err := m.deliveries(s)(whole); err != nil {
				t.Fatal(err)
			}
			if got, want := s.state(), "delivered 3, late 0, twice 0, foreign 1, shown 3"; got != want {
				t.Errorf("QoS %d, %s: %s, want %s", qos, version, got, want)
			}
			answers := []string{"", "\x40\x02\x00\x01\x40\x02\x00\x02\x40\x02\x00\x03", "\x50\x02\x00\x01\x50\x02\x00\x02\x50\x02\x00\x03\x70\x02\x00\x01"}
			if string(s.link.out) != answers[qos] {
				t.Errorf("QoS %d, %s: answered %q", qos, version, s.link.out)
			}
		}
	}
}

// [MQTT-3.3.2] properties of any length are passed over.
func TestMqttDeliveriesWithProperties(t *testing.T) {
	m := mqttOf(0, "5")
	payload := newBlock(m.frame("a", 16), 1, 0, 9)
	for _, size := range []int{0, 1, 127, 128, 300, 20_000} {
		body := append(mqttLength([]byte("\x00\x01a"), size), make([]byte, size)...)
		body = append(body, payload.rows[payload.payload:]...)
		s := newSubscriber(&link{}, 9, 0, 1)
		if _, err := m.deliveries(s)(m.packet(mqttPublish, body)); err != nil || s.flows[0].got != 1 {
			t.Errorf("%d bytes of properties: %s, %v", size, s.state(), err)
		}
	}
}

func TestMqttMalformed(t *testing.T) {
	tests := []struct{ name, bytes, want string }{
		{"length of five bytes", "\x30\x80\x80\x80\x80\x01", "more than four"},
		{"too long", "\x30\xFF\xFF\xFF\x7F", "32 MiB"},
		{"PUBLISH without topic", "\x30\x00", "malformed"},
		{"topic beyond the packet", "\x30\x03\x00\x09a", "malformed"},
		{"no packet id", "\x32\x03\x00\x01a", "malformed"},
		{"no properties", "\x30\x03\x00\x01a", "malformed"},
		{"properties beyond the packet", "\x30\x04\x00\x01a\x05", "malformed"},
		{"long properties beyond the packet", "\x30\x05\x00\x01a\x85\x01", "malformed"},
		{"PUBREL without id", "\x62\x00", "malformed"},
		{"DISCONNECT", "\xE0\x01\x8E", "reason 0x8E"},
		{"CONNACK", "\x20\x02\x00\x00", "unexpected packet type 2"},
	}
	for _, tt := range tests {
		s := newSubscriber(&link{}, 9, 0, 1)
		_, err := mqttOf(1, "5").deliveries(s)([]byte(tt.bytes))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// [MQTT-4.3.2], [MQTT-4.3.3]: what ends the exchange of one message counts.
func TestMqttAnswers(t *testing.T) {
	tests := []struct {
		name, bytes, out string
		acked, refused   uint64
	}{
		{"PUBACK", "\x40\x02\x00\x07", "", 1, 0},
		{"PUBACK, no subscribers", "\x40\x03\x00\x07\x10", "", 1, 0},
		{"PUBACK, quota exceeded", "\x40\x04\x00\x07\x97\x00", "", 1, 1},
		{"PUBREC", "\x50\x02\x00\x07", "\x62\x02\x00\x07", 0, 0},
		{"PUBREC, not authorised", "\x50\x03\x00\x07\x87", "", 1, 1},
		{"PUBCOMP", "\x70\x02\x00\x07", "", 1, 0},
		{"several", "\x50\x02\x00\x07\xD0\x00\x70\x02\x00\x07\x40\x02\x00\x08", "\x62\x02\x00\x07", 2, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inPieces(t, []byte(tt.bytes), func() (scanner, *link, func() string) {
				l, a := &link{}, &answers{progress: newProgress()}
				return mqttOf(1, "5").answers(l, a), l, func() string { return fmt.Sprint(a.acked, a.refused, a.progress.seen.Load()) }
			})
			l, a := &link{}, &answers{progress: newProgress()}
			if _, err := mqttOf(1, "5").answers(l, a)([]byte(tt.bytes)); err != nil {
				t.Fatal(err)
			}
			if a.acked != tt.acked || a.refused != tt.refused || string(l.out) != tt.out {
				t.Errorf("acked %d, refused %d, sent %q", a.acked, a.refused, l.out)
			}
		})
	}
	for _, bad := range []string{"\x40\x01\x00", "\x30\x00", "\xE0\x01\x93"} {
		if _, err := mqttOf(1, "5").answers(&link{}, &answers{progress: newProgress()})([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// [MQTT-3.3.4-7]
func TestReceiveMaximum(t *testing.T) {
	tests := []struct {
		properties string
		want       int
	}{
		{"", 65_535},
		{"\x00", 65_535},
		{"\x03\x21\x00\x14", 20},
		{"\x0A\x12\x00\x02id\x24\x01\x21\x01\x00", 256},
		{"\x0B\x26\x00\x01k\x00\x01v\x21\x00\x05", 65_535}, // shorter than it says
		{"\x0A\x26\x00\x01k\x00\x01v\x21\x00\x05", 5},
		{"\x0A\x27\x00\x00\x10\x00\x22\x00\x0A\x25\x01", 65_535},
		{"\x03\x7F\x00\x14", 65_535},
	}
	for _, tt := range tests {
		if got := receiveMaximum([]byte(tt.properties)); got != tt.want {
			t.Errorf("% X: %d, want %d", tt.properties, got, tt.want)
		}
	}
}
