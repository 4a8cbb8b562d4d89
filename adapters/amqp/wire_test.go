package amqp

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"entrepot/adapters/amqp/frame"
	"entrepot/routing"
)

// A method in a transcript is its name and words NAME=VALUE for its fields, in
// the order of the catalogue, with ch=N for the channel (else 1, and 0 for
// connection methods). Left out is what is empty, zero, false or reserved; a bit
// stands by its name alone. A value with spaces is quoted, a table is {k:v k:v}
// with texts, whole numbers (32 bits, 7l has 64), true, false, null, [a b] and
// tables in it. Content methods go on with body="…", or size=N for a body of N
// times x, and the properties: content-type, headers={…}, mode, priority …

// words parts a line at spaces that stand in no quotes, braces or brackets.
func words(line string) []string {
	var list []string
	depth, quoted, start := 0, false, -1
	for i := 0; i <= len(line); i++ {
		end := i == len(line)
		if !end {
			switch c := line[i]; {
			case c == '"' && line[max(i-1, 0)] != '\\':
				quoted = !quoted
			case quoted:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
			end = line[i] == ' ' && !quoted && depth == 0
		}
		if end && start >= 0 {
			list = append(list, line[start:i])
			start = -1
		} else if !end && start < 0 {
			start = i
		}
	}
	return list
}

func unquoted(s string) string {
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			return u
		}
	}
	return s
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"{}[]:\\") || strings.TrimFunc(s, func(r rune) bool { return r > ' ' && r < 0x7f }) != "" {
		return strconv.Quote(s)
	}
	return s
}

// parseTable reads {k:v k:v}.
func parseTable(s string) routing.Headers {
	var list routing.Headers
	for _, w := range words(s[1 : len(s)-1]) {
		name, value, _ := strings.Cut(w, ":")
		list = append(list, routing.Header{Name: name, Value: parseValue(value)})
	}
	return list
}

func parseValue(s string) any {
	switch {
	case strings.HasPrefix(s, "{"):
		return parseTable(s)
	case strings.HasPrefix(s, "["):
		list := []any{}
		for _, w := range words(s[1 : len(s)-1]) {
			list = append(list, parseValue(w))
		}
		return list
	case s == "true" || s == "false":
		return s == "true"
	case s == "null":
		return nil
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int32(n)
	}
	if n, err := strconv.ParseInt(strings.TrimSuffix(s, "l"), 10, 64); err == nil {
		return n
	}
	return unquoted(s)
}

func printTable(list routing.Headers) string {
	var w []string
	for _, h := range list {
		w = append(w, h.Name+":"+printValue(h.Value))
	}
	return "{" + strings.Join(w, " ") + "}"
}

func printValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if _, text := parseValue(v).(string); !text {
			return strconv.Quote(v)
		}
		return quoted(v)
	case int64:
		return strconv.FormatInt(v, 10) + "l"
	case routing.Headers:
		return printTable(v)
	case []any:
		var w []string
		for _, e := range v {
			w = append(w, printValue(e))
		}
		return "[" + strings.Join(w, " ") + "]"
	case time.Time:
		return "time" + strconv.FormatInt(v.Unix(), 10)
	}
	return fmt.Sprint(v)
}

// properties are the names of content properties in transcripts, in the order
// of their flags, with their types.
var properties = []struct{ name, kind string }{
	{"content-type", "shortstr"}, {"content-encoding", "shortstr"}, {"headers", "table"}, {"mode", "octet"},
	{"priority", "octet"}, {"correlation-id", "shortstr"}, {"reply-to", "shortstr"}, {"expiration", "shortstr"},
	{"message-id", "shortstr"}, {"timestamp", "longlong"}, {"type", "shortstr"}, {"user-id", "shortstr"},
	{"app-id", "shortstr"}, {"cluster-id", "shortstr"},
}

func appendField(b []byte, kind, value string) []byte {
	n, _ := strconv.ParseUint(value, 10, 64)
	switch kind {
	case "octet":
		return append(b, byte(n))
	case "short":
		return frame.AppendShort(b, uint16(n))
	case "long":
		return frame.AppendLong(b, uint32(n))
	case "longlong":
		return frame.AppendLongLong(b, n)
	case "shortstr":
		return frame.AppendShortText(b, unquoted(value))
	case "longstr":
		return frame.AppendLongText(b, unquoted(value))
	}
	if value == "" {
		value = "{}"
	}
	return frame.AppendTable(b, parseTable(value))
}

// message is a method in a transcript.
type message struct {
	channel uint16
	method  frame.Method
	values  map[string]string
}

// parseMessage reads a line.
func parseMessage(line string) (message, error) {
	list := words(line)
	m, ok := frame.MethodNamed(list[0])
	if !ok {
		return message{}, fmt.Errorf("no method %q", list[0])
	}
	msg := message{method: m, values: map[string]string{}, channel: 1}
	if m.Class() == frame.ConnectionClass {
		msg.channel = 0
	}
	for _, w := range list[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			value = "1"
		}
		if name == "ch" {
			n, _ := strconv.Atoi(value)
			msg.channel = uint16(n)
			continue
		}
		msg.values[name] = value
	}
	return msg, nil
}

// content tells methods that a header and a body follow.
func isContent(m frame.Method) bool {
	return slices.Contains([]frame.Method{frame.BasicPublish, frame.BasicReturn, frame.BasicDeliver, frame.BasicGetOK}, m)
}

// encode writes it with frames of at most max bytes.
func (m message) encode(most int) []byte {
	b := frame.Begin(nil, m.channel, m.method)
	bit := 0
	for _, f := range m.method.Fields() {
		if f.Type != "bit" {
			b, bit = appendField(b, f.Type, m.values[f.Name]), 0
			continue
		}
		if bit == 0 {
			b = append(b, 0)
		}
		if m.values[f.Name] != "" {
			b[len(b)-1] |= 1 << bit
		}
		bit++
	}
	b = frame.End(b, 0)
	if !isContent(m.method) {
		return b
	}
	body := unquoted(m.values["body"])
	if n, err := strconv.Atoi(m.values["size"]); err == nil {
		body = strings.Repeat("x", n)
	}
	flags := uint16(0)
	var fields []byte
	for i, p := range properties {
		if v, ok := m.values[p.name]; ok {
			flags |= 1 << (15 - i)
			fields = appendField(fields, p.kind, v)
		}
	}
	start := len(b)
	b = frame.End(append(frame.BeginHeader(b, m.channel, len(body), flags), fields...), start)
	for len(body) > 0 {
		n := min(len(body), most-frame.Overhead)
		b = frame.EndBody(append(frame.BeginBody(b, m.channel, n), body[:n]...))
		body = body[n:]
	}
	return b
}

func readField(r *frame.Reader, kind string) string {
	switch kind {
	case "octet":
		return strconv.Itoa(int(r.Octet()))
	case "short":
		return strconv.Itoa(int(r.Short()))
	case "long":
		return strconv.Itoa(int(r.Long()))
	case "longlong":
		return strconv.FormatUint(r.LongLong(), 10)
	case "shortstr":
		return string(r.ShortText())
	case "longstr":
		return string(r.LongText())
	}
	if t := r.Table(); t != nil {
		return printTable(t)
	}
	return ""
}

// received is the next thing that a client got, as a line.
func received(b []byte) (line string, n int, err error) {
	f, n, err := frame.Next(b, 1<<30)
	if err != nil || n == 0 {
		return "", 0, err
	}
	switch f.Kind {
	case frame.HeartbeatKind:
		return "heartbeat", n, nil
	case frame.MethodKind:
	default:
		return "", 0, fmt.Errorf("a frame of kind %d where a method should be", f.Kind)
	}
	r := frame.NewReader(f.Payload)
	m := r.Method()
	w := []string{m.String()}
	usual := uint16(1)
	if m.Class() == frame.ConnectionClass {
		usual = 0
	}
	if f.Channel != usual {
		w = append(w, "ch="+strconv.Itoa(int(f.Channel)))
	}
	w = append(w, readFields(&r, m)...)
	if err := r.End(); err != nil {
		return "", 0, fmt.Errorf("%v: %w", m, err)
	}
	if isContent(m) {
		more, used, err := readContent(b[n:], f.Channel)
		if used == 0 || err != nil {
			return "", 0, err
		}
		w, n = append(w, more...), n+used
	}
	return strings.Join(w, " "), n, nil
}

func readFields(r *frame.Reader, m frame.Method) []string {
	var w []string
	bits, left := byte(0), 0
	for _, f := range m.Fields() {
		if f.Type == "bit" {
			if left == 0 {
				bits, left = r.Bits(), 8
			}
			if bits&1 != 0 {
				w = append(w, f.Name)
			}
			bits, left = bits>>1, left-1
			continue
		}
		left = 0
		v := readField(r, f.Type)
		if v != "" && v != "0" && !strings.HasPrefix(f.Name, "reserved") {
			if f.Type == "shortstr" || f.Type == "longstr" {
				v = quoted(v)
			}
			w = append(w, f.Name+"="+v)
		}
	}
	return w
}

// readContent reads a header and the body after it; used is 0 when not all has
// come.
func readContent(b []byte, channel uint16) (w []string, used int, err error) {
	f, n, err := frame.Next(b, 1<<30)
	if n == 0 || err != nil {
		return nil, 0, err
	}
	r := frame.NewReader(f.Payload)
	h := frame.ReadContentHeader(&r)
	if f.Kind != frame.HeaderKind || f.Channel != channel {
		return nil, 0, fmt.Errorf("frame of kind %d on %d, not a content header", f.Kind, f.Channel)
	}
	used = n
	body := ""
	for uint64(len(body)) < h.Size {
		part, n, err := frame.Next(b[used:], 1<<30)
		if n == 0 || err != nil {
			return nil, 0, err
		}
		if part.Kind != frame.BodyKind || part.Channel != channel {
			return nil, 0, fmt.Errorf("frame of kind %d on %d, not a body", part.Kind, part.Channel)
		}
		body += string(part.Payload)
		used += n
	}
	if len(body) > 100 && strings.Trim(body, "x") == "" {
		w = append(w, "size="+strconv.Itoa(len(body)))
	} else {
		w = append(w, "body="+quoted(body))
	}
	for i, p := range properties {
		if h.Flags&(1<<(15-i)) == 0 {
			continue
		}
		v := readField(&r, p.kind)
		if p.kind == "shortstr" {
			v = quoted(v)
		}
		w = append(w, p.name+"="+v)
	}
	return w, used, r.End()
}

// rawBytes reads hex with spaces.
func rawBytes(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}
