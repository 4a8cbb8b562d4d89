package stomp

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"entrepot/core"
	"entrepot/routing"
)

// ownHeaders are consumed by SEND; all others are the application's.
const ownHeaders = plainSend | 1<<contentTypeHeader | 1<<contentEncodingHeader | 1<<correlationIDHeader |
	1<<expirationHeader | 1<<expiresHeader | 1<<priorityHeader | 1<<typeHeader | 1<<appIDHeader | 1<<userIDHeader |
	1<<retainHeader | 1<<xRetainHeader | 1<<xMessageIDHeader | 1<<xDelayHeader | 1<<amqDelayHeader

// describe reads the headers of a SEND into the message.
func (c *conn) describe(f *frame, m *core.Message, to *target) error {
	if f.isTrue(persistentHeader) {
		m.Guarantee = core.Durable
	}
	if f.has&^plainSend == 0 {
		return nil
	}
	m.Retain = f.isTrue(retainHeader) || f.isTrue(xRetainHeader)
	if f.has&^(plainSend|1<<retainHeader|1<<xRetainHeader|1<<userIDHeader) == 0 {
		return nil
	}
	p := &core.Properties{
		ContentType:     f.text(contentTypeHeader),
		ContentEncoding: f.text(contentEncodingHeader),
		MessageID:       f.text(xMessageIDHeader),
		Type:            f.text(typeHeader),
		AppID:           f.text(appIDHeader),
	}
	if f.has.holds(correlationIDHeader) {
		p.Correlation = parseBytes(f.text(correlationIDHeader))
	}
	if err := describeNumbers(f, p); err != nil {
		return err
	}
	if err := describeDelay(f, p); err != nil {
		return err
	}
	m.Props = p
	return c.describeOthers(f, p, to)
}

// describeNumbers reads priority and time to live.
func describeNumbers(f *frame, p *core.Properties) error {
	if v := f.value(priorityHeader); v != nil {
		n, ok := decimal(v)
		if !ok || n > math.MaxUint8 {
			return malformed("priority must be a number from 0 to 255: %.20q", v)
		}
		p.Priority, p.HasPriority = uint8(n), true
	}
	if v := f.value(expirationHeader); v != nil {
		n, ok := parseNumber(v)
		if !ok {
			return malformed("expiration must be a number of milliseconds: %.20q", v)
		}
		p.HasTTL, p.TTL = true, milliseconds(n)
	} else if v := f.value(expiresHeader); v != nil {
		n, ok := parseNumber(v)
		if !ok {
			return malformed("expires must be a time in milliseconds since 1970: %.20q", v)
		}
		if n > 0 {
			p.HasTTL, p.TTL = true, max(0, time.Until(time.UnixMilli(int64(n))).Truncate(time.Millisecond))
		}
	}
	return nil
}

// describeDelay reads a delay, RabbitMQ's header or ActiveMQ's.
func describeDelay(f *frame, p *core.Properties) error {
	for _, id := range []headerID{xDelayHeader, amqDelayHeader} {
		v := f.value(id)
		if v == nil {
			continue
		}
		n, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil || n > math.MaxUint32 {
			return malformed("a delay must be a number of milliseconds up to %d: %.20q", uint32(math.MaxUint32), v)
		}
		p.Delay = time.Duration(max(n, 0)) * time.Millisecond
	}
	return nil
}

// milliseconds is n of them, or the longest duration.
func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// describeOthers keeps the application's headers in their order, and those whose value
// does not fit their meaning.
func (c *conn) describeOthers(f *frame, p *core.Properties, to *target) error {
	if f.has&^ownHeaders == 0 {
		return nil
	}
	p.Headers = make(routing.Headers, 0, len(f.spans))
	for _, s := range f.spans {
		if ownHeaders.holds(s.id) {
			continue
		}
		name, value := f.decode(f.nameOf(s)), f.decode(f.valueOf(s))
		switch {
		case s.id == replyToHeader && p.ReplyTo.IsZero():
			known, err := c.describeReply(value, p)
			if err != nil {
				return err
			}
			if known {
				continue
			}
		case s.id == timestampHeader && p.Timestamp.IsZero():
			if t, ok := parseTime(value); ok {
				p.Timestamp = t
				continue
			}
		case to.declare && (queueHeaders.holds(s.id) || queueArgument(name)):
			continue
		}
		p.Headers = append(p.Headers, routing.Header{Name: fromWire(name), Value: value})
	}
	return nil
}

// describeReply reads a reply-to that is a destination; any other text is the
// application's own.
func (c *conn) describeReply(text string, p *core.Properties) (known bool, err error) {
	at, err := parsePlace(text)
	if err != nil {
		return false, nil
	}
	if at.kind == tempQueuePlace || at.kind == tempTopicPlace {
		if err := c.awaitReply(text, at); err != nil {
			return false, err
		}
	}
	a, err := c.addressOf(at)
	if err != nil {
		return false, err
	}
	p.ReplyTo = a
	return true, nil
}

// parseTime reads seconds since 1970, which is what timestamp means to AMQP. Other
// numbers, as ActiveMQ's milliseconds, are the application's own.
func parseTime(text string) (time.Time, bool) {
	n, ok := parseNumber([]byte(text))
	if !ok || n == 0 || n >= 1e11 || text[0] == '0' {
		return time.Time{}, false
	}
	return time.Unix(int64(n), 0), true
}

// appPrefix is put before application headers whose names have a meaning in a MESSAGE.
const appPrefix = "x-app-"

// reservedName tells such names, also behind any number of prefixes.
func reservedName(name string) bool {
	for strings.HasPrefix(name, appPrefix) {
		name = name[len(appPrefix):]
	}
	switch name {
	case "destination", "content-length", "content-type", "content-encoding", "message-id", "subscription",
		"ack", "receipt", "transaction", "persistent", "expiration", "expires", "priority", "correlation-id",
		"reply-to", "type", "app-id", "timestamp", "user-id", "redelivered", "retain", "retained",
		"x-retain", "x-message-id", "x-origin", "x-topic", "x-delay", "AMQ_SCHEDULED_DELAY":
		return true
	}
	return false
}

// toWire is the name under which an application header travels, fromWire undoes it.
func toWire(name string) string {
	if reservedName(name) {
		return appPrefix + name
	}
	return name
}

func fromWire(name string) string {
	if strings.HasPrefix(name, appPrefix) && reservedName(name) {
		return name[len(appPrefix):]
	}
	return name
}

// appendProperties writes the headers of a MESSAGE that describe m.
func (c *conn) appendProperties(buf []byte, m *core.Message) []byte {
	v := c.frame.version
	if m.Guarantee >= core.Durable {
		buf = append(buf, "\npersistent:true"...)
	}
	if o := m.Origin; o != nil {
		if o.User != "" {
			buf = v.appendHeader(buf, "user-id", o.User)
		}
		if c.cfg.OriginHeader {
			buf = v.appendHeader(buf, "x-origin", o.Protocol+" "+o.ClientID)
		}
	}
	p := m.Props
	if p == nil {
		return buf
	}
	for _, x := range [...]struct{ name, value string }{
		{"content-type", p.ContentType},
		{"content-encoding", p.ContentEncoding},
		{"x-message-id", p.MessageID},
		{"type", p.Type},
		{"app-id", p.AppID},
	} {
		if x.value != "" {
			buf = v.appendHeader(buf, x.name, x.value)
		}
	}
	buf = c.appendRare(buf, m)
	for _, h := range p.Headers {
		buf = c.appendOther(buf, h, p)
	}
	return buf
}

// appendRare writes the fields that are no text.
func (c *conn) appendRare(buf []byte, m *core.Message) []byte {
	v, p := c.frame.version, m.Props
	if p.Correlation != nil {
		buf = v.appendHeader(buf, "correlation-id", printBytes(p.Correlation))
	}
	if !p.ReplyTo.IsZero() {
		buf = v.appendHeader(buf, "reply-to", c.server.names.print(p.ReplyTo))
	}
	if p.HasTTL {
		left, _ := m.Remaining(time.Now())
		buf = append(buf, "\nexpiration:"...)
		buf = strconv.AppendInt(buf, left.Milliseconds(), 10)
	}
	if p.HasPriority {
		buf = append(buf, "\npriority:"...)
		buf = appendInt(buf, int(p.Priority))
	}
	if !p.Timestamp.IsZero() {
		buf = append(buf, "\ntimestamp:"...)
		buf = strconv.AppendInt(buf, p.Timestamp.Unix(), 10)
	}
	return buf
}

// appendOther writes an application header under a name that it cannot be mistaken by.
func (c *conn) appendOther(buf []byte, h routing.Header, p *core.Properties) []byte {
	v := c.frame.version
	if !v.carriesName(h.Name) {
		return buf
	}
	name, value := h.Name, printValue(h.Value)
	if !isPlainOther(name, value, p) {
		name = toWire(name)
	}
	return v.appendHeader(buf, name, value)
}

// isPlainOther tells a reply-to or timestamp that describeOthers leaves to the
// application.
func isPlainOther(name, value string, p *core.Properties) bool {
	switch name {
	case "reply-to":
		_, err := parsePlace(value)
		return p.ReplyTo.IsZero() && err != nil
	case "timestamp":
		_, ok := parseTime(value)
		return p.Timestamp.IsZero() && !ok
	}
	return false
}

// printValue writes a typed header value as text.
func printValue(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return printBytes(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case routing.Decimal:
		return printDecimal(v)
	case nil:
		return ""
	}
	if n, ok := integer(v); ok {
		return n
	}
	text, err := json.Marshal(plain(v, 0))
	if err != nil {
		return "" // NaN in a nested table: JSON has none
	}
	return string(text)
}

func integer(v any) (string, bool) {
	switch v := v.(type) {
	case int8:
		return strconv.FormatInt(int64(v), 10), true
	case int16:
		return strconv.FormatInt(int64(v), 10), true
	case int32:
		return strconv.FormatInt(int64(v), 10), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint8:
		return strconv.FormatUint(uint64(v), 10), true
	case uint16:
		return strconv.FormatUint(uint64(v), 10), true
	case uint32:
		return strconv.FormatUint(uint64(v), 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	}
	return "", false
}

// printDecimal writes value / 10^scale without rounding.
func printDecimal(d routing.Decimal) string {
	digits, sign := strconv.FormatInt(int64(d.Value), 10), ""
	if d.Value < 0 {
		digits, sign = digits[1:], "-"
	}
	if d.Scale == 0 {
		return sign + digits
	}
	if short := int(d.Scale) + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	at := len(digits) - int(d.Scale)
	return sign + digits[:at] + "." + digits[at:]
}

// maxNesting bounds what plain follows.
const maxNesting = 32

// plain is a nested value as encoding/json writes it: tables as objects.
func plain(v any, depth int) any {
	if depth > maxNesting {
		return nil
	}
	switch v := v.(type) {
	case routing.Headers:
		object := map[string]any{}
		for _, h := range v {
			if _, ok := object[h.Name]; !ok {
				object[h.Name] = plain(h.Value, depth+1)
			}
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i], depth+1)
		}
		return list
	case []byte:
		return printBytes(v)
	case routing.Decimal:
		return json.Number(printDecimal(v))
	}
	return v
}

// bytesPrefix marks bytes that are no text.
const bytesPrefix = "base64:"

// printBytes writes bytes as they are when they are text, else in base64. parseBytes
// reads both; a text that looks like the mark's own form is marked too, so that each
// undoes the other.
func printBytes(b []byte) string {
	if isPlainText(b) {
		return string(b)
	}
	return bytesPrefix + base64.StdEncoding.EncodeToString(b)
}

func parseBytes(text string) []byte {
	if b, ok := marked(text); ok {
		return b
	}
	return []byte(text)
}

// marked decodes a text in the marked form, if printBytes would have written it.
func marked(text string) ([]byte, bool) {
	code, ok := strings.CutPrefix(text, bytesPrefix)
	if !ok {
		return nil, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(code)
	return b, err == nil && len(code) == base64.StdEncoding.EncodedLen(len(b)) && !isPlainText(b)
}

// isPlainText tells what printBytes leaves as it is.
func isPlainText(b []byte) bool {
	if !utf8.Valid(b) || strings.IndexByte(string(b), 0) >= 0 {
		return false
	}
	_, isMarked := marked(string(b))
	return !isMarked
}
