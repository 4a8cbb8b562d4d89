package mqtt

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Packets in words, for transcripts. Nothing here uses the package's own
// reading and writing.

// propertyNames are the words of the properties, with how they are written:
// b, w, d, v (one, two, four bytes, varint), s (string), x (binary), u (pair).
var propertyNames = []struct {
	word string
	id   byte
	form byte
}{
	{"format", 1, 'b'}, {"expiry", 2, 'd'}, {"type", 3, 's'}, {"response", 8, 's'}, {"correlation", 9, 'x'},
	{"subid", 11, 'v'}, {"session", 17, 'd'}, {"assigned", 18, 's'}, {"keep", 19, 'w'}, {"method", 21, 's'},
	{"data", 22, 'x'}, {"problem", 23, 'b'}, {"delay", 24, 'd'}, {"askresponse", 25, 'b'}, {"info", 26, 's'},
	{"server", 28, 's'}, {"reason", 31, 's'}, {"receive", 33, 'w'}, {"aliases", 34, 'w'}, {"alias", 35, 'w'},
	{"maxqos", 36, 'b'}, {"canretain", 37, 'b'}, {"user", 38, 'u'}, {"maxpacket", 39, 'd'}, {"wildcards", 40, 'b'},
	{"subids", 41, 'b'}, {"shares", 42, 'b'},
}

var packetNames = []string{"", "connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp", "subscribe",
	"suback", "unsubscribe", "unsuback", "pingreq", "pingresp", "disconnect", "auth"}

// words splits a line at spaces outside of quotes; a quoted value is unquoted,
// rep:5 at a word's end stands for xxxxx; slashes: and pluses: (+/) likewise.
func words(line string) (list []string) {
	for {
		line = strings.TrimLeft(line, " ")
		if line == "" {
			return list
		}
		word := ""
		for line != "" && line[0] != ' ' {
			if line[0] == '"' {
				quoted, err := strconv.QuotedPrefix(line)
				if err != nil {
					panic("transcript: quotes in " + line)
				}
				text, _ := strconv.Unquote(quoted)
				word, line = word+text, line[len(quoted):]
				continue
			}
			word, line = word+line[:1], line[1:]
		}
		for mark, fill := range map[string]string{"rep:": "x", "slashes:": "/", "pluses:": "+/"} {
			if before, n, ok := strings.Cut(word, mark); ok {
				count, _ := strconv.Atoi(n)
				word = before + strings.Repeat(fill, count)
			}
		}
		list = append(list, word)
	}
}

// fields are the words of a packet.
type fields struct{ list []string }

// flag takes a bare word.
func (f *fields) flag(name string) bool {
	i := slices.Index(f.list, name)
	if i >= 0 {
		f.list = slices.Delete(f.list, i, i+1)
	}
	return i >= 0
}

// value takes name=value.
func (f *fields) value(name string) (string, bool) {
	for i, w := range f.list {
		if v, ok := strings.CutPrefix(w, name+"="); ok {
			f.list = slices.Delete(f.list, i, i+1)
			return v, true
		}
	}
	return "", false
}

func (f *fields) number(name string, fallback int) int {
	v, ok := f.value(name)
	if !ok {
		return fallback
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		panic("transcript: " + name + "=" + v)
	}
	return int(n)
}

func u16(n int) []byte { return []byte{byte(n >> 8), byte(n)} }
func u32(n int) []byte { return append(u16(n>>16), u16(n)...) }
func str(s string) []byte {
	return append(u16(len(s)), s...)
}

func uvar(n int) (b []byte) {
	for n >= 128 {
		b = append(b, byte(n)|128)
		n >>= 7
	}
	return append(b, byte(n))
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// properties takes all words that are properties, with a prefix, in order.
func (f *fields) properties(prefix string) []byte {
	var b []byte
	for {
		found := false
		for _, p := range propertyNames {
			v, ok := f.value(prefix + p.word)
			if !ok {
				continue
			}
			found = true
			b = append(b, p.id)
			n, _ := strconv.ParseInt(v, 0, 64)
			switch p.form {
			case 'b':
				b = append(b, byte(n))
			case 'w':
				b = append(b, u16(int(n))...)
			case 'd':
				b = append(b, u32(int(n))...)
			case 'v':
				b = append(b, uvar(int(n))...)
			case 'u':
				k, w, _ := strings.Cut(v, ":")
				b = append(append(b, str(k)...), str(w)...)
			default:
				b = append(b, str(v)...)
			}
		}
		if !found {
			return append(uvar(len(b)), b...)
		}
	}
}

// encode writes a client's packet from its words; version is the connection's,
// set by connect.
func encode(line string, version *int) []byte {
	f := &fields{words(line)}
	name := f.list[0]
	f.list = f.list[1:]
	if name == "hex" {
		b, err := hex.DecodeString(strings.Join(f.list, ""))
		if err != nil {
			panic("transcript: " + line)
		}
		return b
	}
	kind := slices.Index(packetNames, name)
	if kind < 0 {
		panic("transcript: packet " + name)
	}
	flags := f.number("flags", -1)
	first, body := encodeBody(f, byte(kind), version)
	if flags >= 0 {
		first = byte(flags)
	}
	if len(f.list) > 0 {
		panic(fmt.Sprintf("transcript: what is %v in %s", f.list, line))
	}
	return join([]byte{byte(kind)<<4 | first}, uvar(len(body)), body)
}

func encodeBody(f *fields, kind byte, version *int) (flags byte, body []byte) {
	v5 := *version == 5
	switch kind {
	case packets.Connect:
		return 0, encodeConnect(f, version)
	case packets.Publish:
		return encodePublish(f, v5)
	case packets.Puback, packets.Pubrec, packets.Pubcomp, packets.Pubrel:
		body = encodeAck(f, v5)
		if kind == packets.Pubrel {
			flags = 2
		}
		return flags, body
	case packets.Subscribe, packets.Unsubscribe:
		return 2, encodeFilters(f, kind, v5)
	case packets.Disconnect, packets.Auth:
		code := f.number("code", 0)
		if props := f.properties(""); v5 && (len(props) > 1 || code > 0) {
			body = append([]byte{byte(code)}, props...)
		}
	}
	return 0, body
}

func encodeConnect(f *fields, version *int) []byte {
	*version = f.number("v", *version)
	name := "MQTT"
	if *version == 3 {
		name = "MQIsdp"
	}
	if v, ok := f.value("protocol"); ok {
		name = v
	}
	flags := byte(0)
	if f.flag("clean") {
		flags |= 2
	}
	will, hasWill := f.value("will")
	payload, _ := f.value("willpayload")
	if hasWill {
		flags |= 4 | byte(f.number("willqos", 0))<<3
		if f.flag("willretain") {
			flags |= 0x20
		}
	}
	user, hasUser := f.value("username")
	if hasUser {
		flags |= 0x80
	}
	password, hasPassword := f.value("password")
	if hasPassword {
		flags |= 0x40
	}
	flags = byte(f.number("connectflags", int(flags)))
	id, _ := f.value("id")
	b := join(str(name), []byte{byte(*version), flags}, u16(f.number("keepalive", 0)))
	willProps := f.properties("will.")
	if props := f.properties(""); *version == 5 {
		b = append(b, props...)
	}
	b = append(b, str(id)...)
	if hasWill {
		if *version == 5 {
			b = append(b, willProps...)
		}
		b = join(b, str(will), str(payload))
	}
	if hasUser {
		b = append(b, str(user)...)
	}
	if hasPassword {
		b = append(b, str(password)...)
	}
	return b
}

func encodePublish(f *fields, v5 bool) (flags byte, b []byte) {
	qos := f.number("qos", 0)
	flags = byte(qos) << 1
	if f.flag("retain") {
		flags |= 1
	}
	if f.flag("dup") {
		flags |= 8
	}
	topic, _ := f.value("topic")
	payload, _ := f.value("payload")
	b = str(topic)
	id := f.number("id", -1)
	if qos > 0 || id >= 0 {
		b = append(b, u16(max(id, 0))...)
	}
	if props := f.properties(""); v5 {
		b = append(b, props...)
	}
	return flags, append(b, payload...)
}

func encodeAck(f *fields, v5 bool) []byte {
	b := u16(f.number("id", 0))
	code := f.number("code", 0)
	if props := f.properties(""); v5 && (len(props) > 1 || code > 0) {
		b = append(append(b, byte(code)), props...)
	}
	return b
}

// encodeFilters takes f=filter, each followed by its q=, nl, rap, rh=.
func encodeFilters(f *fields, kind byte, v5 bool) []byte {
	b := u16(f.number("id", 0))
	if props := f.properties(""); v5 {
		b = append(b, props...)
	}
	options := -1
	end := func() {
		if options >= 0 && kind == packets.Subscribe {
			b = append(b, byte(options))
		}
	}
	for _, w := range f.list {
		name, v, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseInt(v, 0, 64)
		switch name {
		case "f":
			end()
			b, options = append(b, str(v)...), 0
		case "q":
			options |= int(n)
		case "nl":
			options |= 4
		case "rap":
			options |= 8
		case "rh":
			options |= int(n) << 4
		default:
			panic("transcript: filter word " + w)
		}
	}
	end()
	f.list = nil
	return b
}

// reader takes a server's packet apart.
type reader struct {
	b   []byte
	out []string
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		panic("the server's packet ends too early")
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) byte() int { return int(r.take(1)[0]) }
func (r *reader) u16() int  { b := r.take(2); return int(b[0])<<8 | int(b[1]) }
func (r *reader) str() string {
	return string(r.take(r.u16()))
}

func (r *reader) uvar() (n int) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		n |= b & 127 << shift
		if b < 128 {
			return n
		}
	}
}

func (r *reader) add(format string, args ...any) { r.out = append(r.out, fmt.Sprintf(format, args...)) }

func quote(s string) string {
	if q := strconv.Quote(s); s == "" || strings.ContainsAny(s, " ") || len(q) != len(s)+2 {
		return q
	}
	return s
}

func (r *reader) properties() {
	block := &reader{b: r.take(r.uvar())}
	for len(block.b) > 0 {
		id := block.byte()
		i := slices.IndexFunc(propertyNames, func(p struct {
			word string
			id   byte
			form byte
		}) bool {
			return int(p.id) == id
		})
		p := propertyNames[i]
		switch p.form {
		case 'b':
			r.add("%s=%d", p.word, block.byte())
		case 'w':
			r.add("%s=%d", p.word, block.u16())
		case 'd':
			r.add("%s=%d", p.word, block.u16()<<16|block.u16())
		case 'v':
			r.add("%s=%d", p.word, block.uvar())
		case 'u':
			k := block.str()
			r.add("%s=%s", p.word, quote(k+":"+block.str()))
		default:
			r.add("%s=%s", p.word, quote(block.str()))
		}
	}
}

func (r *reader) code() {
	if c := r.byte(); c != 0 {
		r.add("code=%02x", c)
	}
}

// decode writes the first packet of b in words; size is 0 when it is not whole.
func decode(b []byte, version int) (line string, size int) {
	if len(b) < 2 {
		return "", 0
	}
	n, head := 0, 1
	for {
		if head >= len(b) {
			return "", 0
		}
		n |= int(b[head]&127) << (7 * (head - 1))
		head++
		if b[head-1] < 128 {
			break
		}
	}
	if len(b) < head+n {
		return "", 0
	}
	r := &reader{b: b[head : head+n]}
	r.packet(b[0], version == 5)
	return strings.Join(r.out, " "), head + n
}

func (r *reader) packet(first byte, v5 bool) {
	kind := first >> 4
	r.add("%s", packetNames[kind])
	switch kind {
	case packets.Connack:
		if r.byte() == 1 {
			r.add("present")
		}
		r.code()
		if v5 {
			r.properties()
		}
	case packets.Publish:
		r.publish(first, v5)
	case packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp:
		r.add("id=%d", r.u16())
		if len(r.b) > 0 {
			r.code()
		}
		if len(r.b) > 0 {
			r.properties()
		}
	case packets.Suback, packets.Unsuback:
		r.add("id=%d", r.u16())
		props := &reader{}
		if v5 {
			props.b = r.b
			props.properties()
			r.b = props.b
		}
		if len(r.b) > 0 {
			r.add("codes=%s", hex.EncodeToString(r.take(len(r.b))))
		}
		r.out = append(r.out, props.out...)
	case packets.Disconnect:
		if len(r.b) > 0 {
			r.code()
		}
		if len(r.b) > 0 {
			r.properties()
		}
	}
	if len(r.b) > 0 {
		r.add("surplus=%x", r.b)
	}
}

func (r *reader) publish(first byte, v5 bool) {
	r.add("topic=%s", quote(r.str()))
	if qos := first >> 1 & 3; qos > 0 {
		r.add("qos=%d id=%d", qos, r.u16())
	}
	if first&1 != 0 {
		r.add("retain")
	}
	if first&8 != 0 {
		r.add("dup")
	}
	if v5 {
		r.properties()
	}
	r.add("payload=%s", quote(string(r.take(len(r.b)))))
}
