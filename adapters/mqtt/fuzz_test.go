package mqtt

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"entrepot/routing"
)

// FuzzFeed sends arbitrary bytes in arbitrary pieces, from the start and after
// a CONNECT. At most that connection ends; a client beside it notices nothing
// but well-formed messages.
func FuzzFeed(f *testing.F) {
	for _, version := range []int{3, 4, 5} {
		for _, line := range []string{
			"connect id=x clean", "connect id=x will=t willpayload=w willqos=1 keepalive=1 username=u password=p",
			"publish topic=t payload=x", "publish topic=t qos=1 id=1 payload=x", "publish topic=t qos=2 id=2 dup retain",
			"puback id=1", "pubrec id=1", "pubrel id=1", "pubcomp id=1", "subscribe id=1 f=# q=2 f=$share/g/t f=$queue/q q=1",
			"unsubscribe id=1 f=t f=#", "pingreq", "disconnect", "auth code=24", "hex 30ffffff7f", "hex c0ffffffffff00",
		} {
			v := version
			f.Add(encode(line, &v), uint64(0x1234567), uint8(version))
		}
	}
	v := 5
	f.Add(encode("publish topic=t qos=1 id=1 format=1 expiry=1 type=a response=b correlation=c alias=1 user=a:b payload=x", &v), uint64(0), uint8(5))
	f.Add(encode("connect id=x session=1 receive=1 maxpacket=100 aliases=1 problem=0 user=a:b will=t will.delay=1 will.user=a:b", &v), uint64(9), uint8(0))
	f.Add(encode("subscribe id=1 subid=5 user=a:b f=t q=1 nl rap rh=2", &v), uint64(9), uint8(5))
	f.Add(encode("disconnect code=4 session=5 reason=x", &v), uint64(9), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, pieces uint64, version uint8) {
		synctest.Test(t, func(t *testing.T) {
			s := newTheatre(t, testConfig())
			defer s.end()
			s.must("w> connect id=w", "w< connack ...", "w> subscribe id=1 f=# q=2", "w< suback id=1 codes=02")
			if version >= 3 && version <= 5 {
				s.must("x> connect id=y clean v="+strconv.Itoa(int(version)), "x< connack ...")
			}
			x := s.client("x")
			go func() {
				for len(data) > 0 {
					n := min(len(data), 1+int(pieces%16))
					pieces = pieces>>4 | pieces<<60
					if _, err := x.conn.Write(data[:n]); err != nil {
						return
					}
					data = data[n:]
				}
			}()
			synctest.Wait()
			s.drain("x", 5)
			x.conn.Close()
			s.drain("w", 5)
			s.must("w> pingreq", "w< pingresp", "w< nothing")
		})
	})
}

// drain takes all packets, each of which has to be well-formed.
func (s *theatre) drain(name string, version int) (lines []string) {
	s.t.Helper()
	synctest.Wait()
	c := s.client(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "x" {
		version = 4 // its version is what the bytes said: only the frames are looked at
	}
	for {
		if name == "x" {
			n := skip(c.got)
			if n == 0 {
				break
			}
			c.got = c.got[n:]
			continue
		}
		line, size := decode(c.got, version)
		if size == 0 {
			break
		}
		lines = append(lines, line)
		c.got = c.got[size:]
	}
	if len(c.got) > 0 {
		s.t.Fatalf("%s got half a packet: %x", name, c.got)
	}
	return lines
}

func skip(b []byte) int {
	head, size, err := frame(b)
	if err != nil || head == 0 || size > len(b) {
		return 0
	}
	return size
}

// FuzzPublish: what one client publishes another one gets, whatever it is.
func FuzzPublish(f *testing.F) {
	f.Add("a/b", []byte("x"), byte(1), "k", "v", "text/plain", []byte("c"), uint32(7))
	f.Add("%00", []byte{}, byte(2), "", "", "", []byte{}, uint32(0))
	f.Add("/", bytes.Repeat([]byte("y"), 5000), byte(0), "x-priority", "9", "\ufeff", []byte{0}, uint32(1<<32-1))
	f.Add("$queue/a%2Fb", []byte{0}, byte(1), "é", "世", "", []byte{}, uint32(1))
	f.Fuzz(func(t *testing.T, topic string, payload []byte, qos byte, name, value, kind string, correlation []byte, expiry uint32) {
		qos %= 3
		parsed, err := routing.MQTT.ParseTopic(topic)
		for _, text := range []string{topic, name, value, kind} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\uffff") || len(text) > 1000 {
				return
			}
		}
		queue := strings.HasPrefix(topic, "$queue/") && err == nil && len(parsed.Levels()) == 2
		if err != nil || parsed.Dollar() && !queue || strings.HasPrefix(name, "x-") || strings.HasPrefix(strings.ToLower(name), "x-") ||
			len(correlation) > 1000 || strings.Contains(name, ":") || queue && len(parsed.Levels()[1]) > 200 || expiry == 0 {
			return
		}
		if queue && (parsed.Levels()[1] == "" || strings.HasPrefix(parsed.Levels()[1], "amq.") || strings.HasPrefix(parsed.Levels()[1], "$")) {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			s := newTheatre(t, testConfig())
			defer s.end()
			s.must("s> connect id=s", "s< connack ...", "s> subscribe id=1 f="+strconv.Quote(topic)+" q=2", "s< suback id=1 codes=02",
				"p> connect id=p", "p< connack ...")
			id := ""
			if qos > 0 {
				id = " id=1"
			}
			fields := " expiry=" + strconv.Itoa(int(expiry)) + optional("type", kind) + " correlation=" + quote(string(correlation)) +
				" user=" + quote(name+":"+value) + " payload=" + quote(string(payload))
			if strings.Contains(fields, "rep:") {
				return // has a meaning in transcripts
			}
			s.must("p> publish topic="+quote(topic)+" qos="+strconv.Itoa(int(qos))+id+fields,
				"s< publish topic="+quote(topic)+map[byte]string{1: " qos=1 id=1", 2: " qos=2 id=1"}[qos]+fields)
		})
	})
}

func optional(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + "=" + quote(value)
}

// FuzzProperties: the walk over a block never leaves it, and takes no more
// than it says.
func FuzzProperties(f *testing.F) {
	for _, seed := range []string{"00", "022304", "0a26000161000162", "0303000161", "ffffff7f", "8000", "0508000161", "04230001", "020101"} {
		b, _ := hex.DecodeString(seed)
		f.Add(b, byte(3))
	}
	cfg := testConfig()
	c := &conn{server: &Server{cfg: cfg}, version: 5}
	f.Fuzz(func(t *testing.T, b []byte, kind byte) {
		kind %= 16
		if kind == 0 {
			kind = 99
		}
		rest, err := c.checkProperties(kind, b)
		if err == nil && (len(rest) >= len(b) || !bytes.HasSuffix(b, rest)) {
			t.Fatalf("%x left %x", b, rest)
		}
		got, rest2, err2 := c.takeMessageProperties(kind, b)
		if (kind == 3 || kind == 99) && err == nil && err2 == nil && (!bytes.Equal(rest, rest2) || got.props != nil && got.props.HasTTL && got.props.TTL < 0) {
			t.Fatalf("%x: %+v, left %x", b, got, rest2)
		}
	})
}
