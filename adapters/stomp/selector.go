package stomp

import (
	"strconv"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// selector chooses messages by their headers: the subset of SQL-92 that JMS brokers
// take. What it costs to ask it grows with its own length and the message's headers,
// and no faster. Safe for use by one goroutine at a time.
//
//	color = 'red' AND weight > 5
//	type LIKE 'order.%' OR size BETWEEN 3 AND 5 OR kind IN ('a', 'b') OR note IS NULL
//
// A name is a header of the application, or of the message where it has that name
// ("type", "priority", JMSType, JMSPriority …); one that is no word is written in double
// quotes. Headers are text: compared with a number, a text that is a number counts as
// one. As in SQL, what is compared with a header that is not there is unknown, and a
// message is chosen only when the whole is true.
type selector struct {
	root expression
	text string
}

// maxSelector bounds a selector's length, and by it what one message may cost.
const maxSelector = 4096

// parseSelector reads a selector; the error is a *fault that shows the place.
func parseSelector(text string) (*selector, error) {
	if len(text) > maxSelector {
		return nil, bad("selector longer than %d bytes", maxSelector)
	}
	// ActiveMQ's switch for what happens here anyway.
	rest := strings.TrimPrefix(text, "convert_string_expressions:")
	p := selectorParser{lexer: lexer{text: rest}}
	root := p.parse()
	if p.err != nil {
		return nil, p.fault(len(text) - len(rest))
	}
	return &selector{root: root, text: text}, nil
}

// chooses tells whether the selector is true for m.
func (s *selector) chooses(m *core.Message) bool {
	v := s.root.eval(m)
	return v.kind == truthValue && v.truth
}

// value is what an expression comes to. The zero value is unknown.
type value struct {
	kind  valueKind
	truth bool
	n     int64
	f     float64
	s     string
}

type valueKind uint8

const (
	unknownValue valueKind = iota
	truthValue
	integerValue
	floatValue
	textValue
)

func truth(b bool) value { return value{kind: truthValue, truth: b} }

func text(s string) value { return value{kind: textValue, s: s} }

func whole(n int64) value { return value{kind: integerValue, n: n} }

// number is v as a number, when it is one or a text that looks like one.
func (v value) number() (value, bool) {
	switch v.kind {
	case integerValue, floatValue:
		return v, true
	case textValue:
		if n, err := strconv.ParseInt(v.s, 10, 64); err == nil {
			return whole(n), true
		}
		if f, err := strconv.ParseFloat(v.s, 64); err == nil && looksDecimal(v.s) {
			return value{kind: floatValue, f: f}, true
		}
	}
	return value{}, false
}

// looksDecimal leaves out what ParseFloat takes and nobody means: NaN, Inf, 0x1p3.
func looksDecimal(s string) bool {
	return strings.Trim(s, "0123456789+-.eE") == ""
}

func (v value) float() float64 {
	if v.kind == integerValue {
		return float64(v.n)
	}
	return v.f
}

// lookUp is what a name in a selector stands for in a message.
func lookUp(m *core.Message, name string) value {
	p := m.Props
	if p == nil {
		p = &core.Properties{}
	}
	if h, ok := p.Headers.Get(name); ok {
		return headerValue(h)
	}
	switch name {
	case "JMSDeliveryMode":
		if m.Guarantee >= core.Durable {
			return text("PERSISTENT")
		}
		return text("NON_PERSISTENT")
	case "persistent":
		return truth(m.Guarantee >= core.Durable)
	case "user-id":
		if m.Origin != nil {
			return given(m.Origin.User)
		}
	case "JMSTimestamp", "timestamp":
		return timeValue(p.Timestamp, name == "JMSTimestamp")
	case "JMSPriority", "priority":
		return priorityValue(p, name == "JMSPriority")
	}
	return lookUpText(p, name)
}

// lookUpText is lookUp for the fields that are text.
func lookUpText(p *core.Properties, name string) value {
	switch name {
	case "JMSType", "type":
		return given(p.Type)
	case "JMSCorrelationID", "correlation-id":
		return given(printBytes(p.Correlation))
	case "JMSMessageID", "x-message-id":
		return given(p.MessageID)
	case "content-type":
		return given(p.ContentType)
	case "content-encoding":
		return given(p.ContentEncoding)
	case "app-id":
		return given(p.AppID)
	}
	return value{}
}

// given is unknown for what a message does not say.
func given(s string) value {
	if s == "" {
		return value{}
	}
	return text(s)
}

// timeValue is in milliseconds for JMS, in seconds as the header has it.
func timeValue(t time.Time, jms bool) value {
	switch {
	case t.IsZero():
		return value{}
	case jms:
		return whole(t.UnixMilli())
	}
	return whole(t.Unix())
}

// priorityValue: JMS messages always have one, 4 where nobody said.
func priorityValue(p *core.Properties, jms bool) value {
	switch {
	case p.HasPriority:
		return whole(int64(p.Priority))
	case jms:
		return whole(4)
	}
	return value{}
}

// headerValue is a typed header as selectors see it.
func headerValue(v any) value {
	switch v := v.(type) {
	case string:
		return text(v)
	case bool:
		return truth(v)
	case float32:
		return value{kind: floatValue, f: float64(v)}
	case float64:
		return value{kind: floatValue, f: v}
	case routing.Decimal:
		return text(printDecimal(v))
	case nil:
		return value{}
	}
	if n, ok := integer(v); ok {
		return text(n) // a number when it is compared with one
	}
	return text(printValue(v))
}
