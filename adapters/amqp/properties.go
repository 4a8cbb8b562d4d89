package amqp

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/routing"
)

// asked is what the properties of a publish ask of the broker.
type asked struct {
	user    string // user-id
	checked bool   // it was given
	replyTo string
}

// readProperties reads the properties of a content header (AMQP 0-9-1, 1.8.1)
// into the open content. Errors are *fault.
func readProperties(r *frame.Reader, flags uint16, in *content) error {
	if flags&frame.Unknown != 0 {
		return broken(frame.SyntaxError, "content header with unknown property flags")
	}
	if flags == frame.DeliveryMode {
		return readDeliveryMode(r, in)
	}
	p := &core.Properties{}
	in.props = p
	for _, x := range [...]struct {
		flag uint16
		read func() error
	}{
		{frame.ContentType, func() error { return readText(r, &p.ContentType) }},
		{frame.ContentEncoding, func() error { return readText(r, &p.ContentEncoding) }},
		{frame.HeaderTable, func() error { p.Headers = r.Table(); return nil }},
		{frame.DeliveryMode, func() error { return readDeliveryMode(r, in) }},
		{frame.Priority, func() error { p.Priority, p.HasPriority = r.Octet(), true; return nil }},
		{frame.CorrelationID, func() error { p.Correlation = append([]byte{}, r.ShortText()...); return nil }},
		{frame.ReplyTo, func() error { return readText(r, &in.asked.replyTo) }},
		{frame.Expiration, func() error { return readExpiration(r, p) }},
		{frame.MessageID, func() error { return readText(r, &p.MessageID) }},
		{frame.Timestamp, func() error { p.Timestamp = time.Unix(int64(r.LongLong()), 0); return nil }},
		{frame.Type, func() error { return readText(r, &p.Type) }},
		{frame.UserID, func() error { in.asked.checked = true; return readText(r, &in.asked.user) }},
		{frame.AppID, func() error { return readText(r, &p.AppID) }},
		{frame.ClusterID, func() error { r.ShortText(); return nil }},
	} {
		if flags&x.flag == 0 {
			continue
		}
		if err := x.read(); err != nil {
			return err
		}
	}
	return nil
}

// readText reads a property that the other protocols carry as text.
func readText(r *frame.Reader, into *string) error {
	b := r.ShortText()
	if !utf8.Valid(b) {
		return refuse(frame.PreconditionFailed, "a property is not UTF-8")
	}
	*into = string(b)
	return nil
}

func readDeliveryMode(r *frame.Reader, in *content) error {
	if r.Octet() == 2 {
		in.guarantee = core.Durable
	} else {
		in.transient = true
	}
	return nil
}

// readExpiration reads a time to live in milliseconds, as text.
func readExpiration(r *frame.Reader, p *core.Properties) error {
	text := string(r.ShortText())
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || text[0] == '+' {
		return refuse(frame.PreconditionFailed, "invalid expiration '%s': a whole number of milliseconds, not negative", text)
	}
	if n > math.MaxUint32 {
		return refuse(frame.PreconditionFailed, "invalid expiration '%s': more than %d milliseconds", text, uint32(math.MaxUint32))
	}
	p.HasTTL, p.TTL = true, time.Duration(n)*time.Millisecond
	return nil
}

// checkProperties does what the properties ask of the broker, and takes out the
// headers that are for it.
func (ch *channel) checkProperties(m *core.Message, in *content) error {
	c := ch.conn
	if in.asked.checked && in.asked.user != c.login.user() {
		return refuse(frame.PreconditionFailed, "user_id property set to '%s' but authenticated user was '%s'",
			in.asked.user, c.login.user())
	}
	if err := ch.checkReply(m.Props, in.asked.replyTo); err != nil {
		return err
	}
	for _, h := range m.Props.Headers {
		if controlHeader(h.Name) {
			return ch.control(m, in.to)
		}
	}
	return nil
}

// checkReply makes an address of a reply-to.
func (ch *channel) checkReply(p *core.Properties, text string) error {
	switch {
	case text == "":
		return nil
	case text == replyTo:
		if ch.reply == nil {
			return refuse(frame.PreconditionFailed, "fast reply consumer does not exist")
		}
		text = ch.reply.key.Name
	}
	a, err := parseQueueKey(text)
	if err != nil {
		return err
	}
	p.ReplyTo = a
	return nil
}

// The headers that ask something of the broker.
const (
	retainHeader = "x-retain"
	ccHeader     = "CC"
	bccHeader    = "BCC"
)

func controlHeader(name string) bool {
	return name == retainHeader || name == ccHeader || name == bccHeader
}

// control reads those headers and takes out all but CC.
func (ch *channel) control(m *core.Message, to *target) error {
	p := m.Props
	kept := make(routing.Headers, 0, len(p.Headers))
	for _, h := range p.Headers {
		var err error
		switch h.Name {
		case retainHeader:
			m.Retain = m.Retain || isTrue(h.Value)
			continue
		case bccHeader:
			p.BCC, err = moreTopics(p.BCC, h, to)
			if err != nil {
				return err
			}
			continue
		case ccHeader:
			if p.CC, err = moreTopics(p.CC, h, to); err != nil {
				return err
			}
		}
		kept = append(kept, h)
	}
	p.Headers = kept
	return nil
}

func isTrue(v any) bool {
	s, _ := v.(string)
	b, _ := v.(bool)
	return b || strings.EqualFold(s, "true")
}

// moreTopics reads the routing keys of CC or BCC (RabbitMQ, sender-selected
// distribution).
func moreTopics(topics []routing.Topic, h routing.Header, to *target) ([]routing.Topic, error) {
	list, ok := h.Value.([]any)
	if !ok {
		return nil, refuse(frame.PreconditionFailed, "unsupported type in '%s' header: it must be an array of long strings", h.Name)
	}
	for _, v := range list {
		key, ok := v.(string)
		if !ok {
			continue
		}
		a, err := parseAddress(to.exchange, key)
		if err != nil {
			return nil, err
		}
		topics = append(topics, a.Topic)
	}
	return topics, nil
}
