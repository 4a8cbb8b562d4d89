package mqtt

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/routing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// User properties that stand for fields of the core's message (names.md,
// section 4).
const (
	propPriority  = "x-priority"
	propTTL       = "x-ttl"
	propDelay     = "x-delay"
	propRetain    = "x-retain"
	propMessageID = "x-message-id"
	propType      = "x-type"
	propAppID     = "x-app-id"
	propTimestamp = "x-timestamp" // seconds since 1970, as AMQP has it
	propEncoding  = "x-content-encoding"
	propTopic     = "x-topic"
	propOrigin    = "x-origin"
	propUser      = "x-user"
)

// brought is what the properties of a PUBLISH or a will say.
type brought struct {
	props *core.Properties // nil when there is nothing for the core

	alias    uint16
	hasAlias bool
	retain   bool
	delay    time.Duration // of a will
	refused  error         // *refusal: the message is not taken
}

// takeMessageProperties reads the block in front of b and returns what follows.
func (c *conn) takeMessageProperties(kind byte, b []byte) (got brought, rest []byte, err error) {
	rest, err = c.checkProperties(kind, b)
	if err != nil {
		return got, nil, err
	}
	block, _, err := takeProperties(b)
	for len(block) > 0 && err == nil {
		var p property
		if p, block, err = takeProperty(kind, block); err == nil {
			err = got.take(p)
		}
	}
	return got, rest, err
}

// fields returns the core's properties, made when first needed.
func (g *brought) fields() *core.Properties {
	if g.props == nil {
		g.props = &core.Properties{}
	}
	return g.props
}

func (g *brought) take(p property) error {
	switch p.id {
	case packets.PropTopicAlias:
		g.alias, g.hasAlias = uint16(p.n), true
	case packets.PropWillDelayInterval:
		g.delay = time.Duration(p.n) * time.Second
	case packets.PropPayloadFormat:
		if p.n == 1 {
			g.fields().Text = true
		}
	case packets.PropMessageExpiryInterval:
		g.expires(time.Duration(p.n) * time.Second)
	case packets.PropContentType:
		g.fields().ContentType = string(p.a)
	case packets.PropCorrelationData:
		g.fields().Correlation = append([]byte{}, p.a...)
	case packets.PropResponseTopic:
		return g.replyTo(string(p.a))
	case packets.PropUser:
		g.header(string(p.a), string(p.b))
	}
	return nil
}

func (g *brought) expires(d time.Duration) {
	f := g.fields()
	f.TTL, f.HasTTL = d, true
}

// replyTo takes a response topic; one beyond the limits of a topic name is
// refused with its message.
func (g *brought) replyTo(text string) error {
	a, err := parseAddress(text)
	if r, ok := err.(*refusal); ok {
		g.refused = &refusal{r.code, "response topic: " + r.text}
		return nil
	}
	if err != nil {
		return err
	}
	g.fields().ReplyTo = a
	return nil
}

// header takes a user property: a field of the message, a control name, or a
// header of the application.
func (g *brought) header(name, value string) {
	if !strings.HasPrefix(name, "x-") || !g.field(name, value) {
		f := g.fields()
		f.Headers = append(f.Headers, routing.Header{Name: name, Value: value})
	}
}

// field tells whether a name stands for a field; a value that the field cannot
// have leaves it to the headers, a control name is refused.
func (g *brought) field(name, value string) bool {
	switch name {
	case propMessageID:
		g.fields().MessageID = value
	case propType:
		g.fields().Type = value
	case propAppID:
		g.fields().AppID = value
	case propEncoding:
		g.fields().ContentEncoding = value
	case propTimestamp:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n <= 0 {
			return false
		}
		g.fields().Timestamp = time.Unix(n, 0)
	default:
		return g.control(name, value)
	}
	return true
}

// control acts on the names that are consumed at publish.
func (g *brought) control(name, value string) bool {
	switch name {
	case propDelay:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n > maxDelay {
			g.refused = &refusal{implementation, "x-delay is a number of milliseconds, up to 4294967295"}
			return true
		}
		g.fields().Delay = time.Duration(max(n, 0)) * time.Millisecond
	case propRetain:
		g.retain = value == "true"
	case propPriority:
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil {
			g.refused = &refusal{implementation, "x-priority is a number from 0 to 255"}
			return true
		}
		f := g.fields()
		f.Priority, f.HasPriority = uint8(n), true
	case propTTL:
		n, err := strconv.ParseUint(value, 10, 42)
		if err != nil {
			g.refused = &refusal{implementation, "x-ttl is a number of milliseconds"}
			return true
		}
		g.expires(time.Duration(n) * time.Millisecond)
	default:
		return false
	}
	return true
}

// appendProperties writes what an MQTT 5 subscriber gets of a message's rare
// fields. own tells that the message came by MQTT, whose strings were checked.
func appendProperties(b []byte, m *core.Message, own bool) []byte {
	p := m.Props
	if p.Text {
		b = append(b, packets.PropPayloadFormat, 1)
	}
	if left, ok := m.Remaining(time.Now()); ok {
		n := uint32(min((left+time.Second-1)/time.Second, 0xFFFFFFFF))
		b = append(b, packets.PropMessageExpiryInterval, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if p.ContentType != "" && carries(p.ContentType, own) {
		b = appendText(append(b, packets.PropContentType), p.ContentType)
	}
	if !p.ReplyTo.IsZero() {
		if text := printAddress(p.ReplyTo); text != "" && len(text) <= 65535 {
			b = appendText(append(b, packets.PropResponseTopic), text)
		}
	}
	if p.Correlation != nil && len(p.Correlation) <= 65535 {
		b = append(b, packets.PropCorrelationData, byte(len(p.Correlation)>>8), byte(len(p.Correlation)))
		b = append(b, p.Correlation...)
	}
	b = appendFields(b, p, own)
	for _, h := range p.Headers {
		if s, ok := h.Value.(string); ok {
			b = appendUser(b, h.Name, s, own)
			continue
		}
		b = appendUser(b, h.Name, printValue(h.Value), false)
	}
	return b
}

// appendFields writes the fields that MQTT has no property for.
func appendFields(b []byte, p *core.Properties, own bool) []byte {
	if p.HasPriority {
		b = appendUser(b, propPriority, strconv.Itoa(int(p.Priority)), true)
	}
	if !p.Timestamp.IsZero() {
		b = appendUser(b, propTimestamp, strconv.FormatInt(p.Timestamp.Unix(), 10), true)
	}
	for _, f := range [...]struct{ name, value string }{
		{propMessageID, p.MessageID}, {propType, p.Type}, {propAppID, p.AppID}, {propEncoding, p.ContentEncoding},
	} {
		if f.value != "" {
			b = appendUser(b, f.name, f.value, own)
		}
	}
	return b
}

// carries tells whether MQTT can write a string.
func carries(s string, known bool) bool {
	return known || len(s) <= 65535 && validString([]byte(s))
}

func appendText(b []byte, s string) []byte {
	return append(append(b, byte(len(s)>>8), byte(len(s))), s...)
}

// appendUser writes a user property; one that MQTT cannot carry is left out.
func appendUser(b []byte, name, value string, known bool) []byte {
	if !carries(name, known) || !carries(value, known) {
		return b
	}
	return appendText(appendText(append(b, packets.PropUser), name), value)
}

// printValue is a header's value as text.
func printValue(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		if s := string(v); carries(s, false) {
			return s
		}
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case routing.Decimal:
		return printDecimal(v)
	case float32:
		return strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

// printDecimal writes Value divided by ten to the power of Scale.
func printDecimal(d routing.Decimal) string {
	s, sign := strconv.FormatInt(int64(d.Value), 10), ""
	if d.Value < 0 {
		s, sign = s[1:], "-"
	}
	for len(s) <= int(d.Scale) {
		s = "0" + s
	}
	if d.Scale == 0 {
		return sign + s
	}
	return sign + s[:len(s)-int(d.Scale)] + "." + s[len(s)-int(d.Scale):]
}
