package core

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"entrepot/routing"
)

// maxPeriod is the longest time that an argument in milliseconds may say; it
// is RabbitMQ's limit, 49 days.
const maxPeriod = math.MaxUint32

// ParseQueueArgs reads the arguments of a queue under the names that RabbitMQ
// users know. Whole numbers may have any integer type, or be decimal text as
// text protocols have it; truth values may be the text true or false. Names
// without "x-", and x-queue-type (classic, quorum), x-queue-mode and
// x-queue-version, are kept in Shown without effect. Errors name the argument:
// ErrUnsupported for another name with "x-" and for streams, ErrInvalid for a
// value of a wrong type or out of range, and for a name given twice.
func ParseQueueArgs(hs routing.Headers) (QueueArgs, error) {
	var p argsParser
	for i, h := range hs {
		if _, twice := hs[:i].Get(h.Name); twice {
			return QueueArgs{}, invalid("argument %s is given twice", h.Name)
		}
		if err := p.argument(h); err != nil {
			return QueueArgs{}, err
		}
	}
	if p.key != nil {
		if p.args.DeadLetter == nil {
			return QueueArgs{}, invalid("argument x-dead-letter-routing-key needs x-dead-letter-exchange")
		}
		p.args.DeadLetter.Key, p.args.DeadLetter.HasKey = *p.key, true
	}
	return p.args, nil
}

type argsParser struct {
	args QueueArgs
	key  *string // x-dead-letter-routing-key
}

// argument reads one; each kind of value has a reader that knows the range.
func (p *argsParser) argument(h routing.Header) (err error) {
	a := &p.args
	var n int64
	switch h.Name {
	case "x-message-ttl":
		a.MessageTTL, err = period(h, 0)
		a.HasMessageTTL = true
	case "x-expires":
		a.Expires, err = period(h, 1)
	case "x-redelivery-delay":
		a.RedeliverWait, err = period(h, 0)
	case "x-max-length":
		n, err = whole(h, 0, math.MaxInt)
		a.MaxLength, a.HasMaxLength = int(n), true
	case "x-max-length-bytes":
		a.MaxBytes, err = whole(h, 0, math.MaxInt64)
		a.HasMaxBytes = true
	case "x-max-priority":
		n, err = whole(h, 1, 255)
		a.MaxPriority = int(n)
	case "x-max-overtakes":
		n, err = whole(h, 1, math.MaxInt32)
		a.MaxOvertakes = int(n)
	case "x-delivery-limit":
		n, err = whole(h, -1, math.MaxInt32)
		a.DeliveryLimit, a.HasLimit = int(n), true
	case "x-single-active-consumer":
		a.SingleActive, err = truth(h)
	default:
		return p.textArgument(h)
	}
	return err
}

func (p *argsParser) textArgument(h routing.Header) error {
	a := &p.args
	switch h.Name {
	case "x-overflow":
		return p.overflow(h)
	case "x-dead-letter-exchange":
		name, err := text(h, 0)
		a.DeadLetter = &DeadLetter{Exchange: name}
		return err
	case "x-dead-letter-routing-key":
		key, err := text(h, 0)
		p.key = &key
		return err
	case "x-last-value-key":
		var err error
		a.LastValueKey, err = text(h, 1)
		return err
	case "x-queue-type", "x-queue-mode", "x-queue-version":
		return p.shown(h)
	}
	if strings.HasPrefix(h.Name, "x-") {
		return fmt.Errorf("argument %s: %w", h.Name, ErrUnsupported)
	}
	a.Shown = append(a.Shown, h)
	return nil
}

// shown keeps what RabbitMQ's clients send and this broker has no use for.
func (p *argsParser) shown(h routing.Header) error {
	if h.Name == "x-queue-version" {
		if _, err := whole(h, 1, math.MaxInt32); err != nil {
			return err
		}
	} else if v, err := text(h, 1); err != nil {
		return err
	} else if h.Name == "x-queue-mode" && v != "default" && v != "lazy" {
		return invalid("argument x-queue-mode: default or lazy")
	} else if h.Name == "x-queue-type" && v == "stream" {
		return fmt.Errorf("argument x-queue-type stream: %w", ErrUnsupported)
	} else if h.Name == "x-queue-type" && v != "classic" && v != "quorum" {
		return invalid("argument x-queue-type: classic or quorum")
	}
	p.args.Shown = append(p.args.Shown, h)
	return nil
}

func (p *argsParser) overflow(h routing.Header) error {
	v, err := text(h, 0)
	if err != nil {
		return err
	}
	for o := DropHead; o <= RejectPublishDLX; o++ {
		if o.String() == v {
			p.args.Overflow = o
			return nil
		}
	}
	return invalid("argument x-overflow: drop-head, reject-publish or reject-publish-dlx")
}

// String is the value of x-overflow.
func (o Overflow) String() string {
	return [...]string{"drop-head", "reject-publish", "reject-publish-dlx"}[o%3]
}

// period reads milliseconds.
func period(h routing.Header, least int64) (time.Duration, error) {
	n, err := whole(h, least, maxPeriod)
	return time.Duration(n) * time.Millisecond, err
}

// whole reads a whole number from least to most.
func whole(h routing.Header, least, most int64) (int64, error) {
	n, ok := integer(h.Value)
	if !ok {
		return 0, invalid("argument %s: not a whole number", h.Name)
	}
	if n < least || n > most {
		return 0, invalid("argument %s: from %d to %d", h.Name, least, most)
	}
	return n, nil
}

// integer takes every integer type and decimal text; a uint64 that is too
// large for any argument comes back as -1.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int8:
		return int64(v), true
	case int16:
		return int64(v), true
	case int32:
		return int64(v), true
	case int64:
		return v, true
	case uint8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case uint64:
		if v > math.MaxInt64 {
			return -1, true
		}
		return int64(v), true
	}
	s, ok := asText(v)
	if !ok || strings.HasPrefix(s, "+") {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func truth(h routing.Header) (bool, error) {
	if v, ok := h.Value.(bool); ok {
		return v, nil
	}
	switch v, _ := asText(h.Value); v {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, invalid("argument %s: true or false", h.Name)
}

// text reads a name or key of at least so many bytes.
func text(h routing.Header, least int) (string, error) {
	s, ok := asText(h.Value)
	switch {
	case !ok:
		return "", invalid("argument %s: not a text", h.Name)
	case len(s) < least || len(s) > maxName:
		return "", invalid("argument %s: from %d to %d bytes", h.Name, least, maxName)
	case !plainText(s):
		return "", invalid("argument %s: not UTF-8 without NUL and U+FFFF", h.Name)
	}
	return s, nil
}

func asText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// Headers are the arguments as ParseQueueArgs reads them: whole numbers as
// int64, what is not set left out, and Shown last.
func (a QueueArgs) Headers() routing.Headers {
	var hs routing.Headers
	add := func(set bool, name string, v any) {
		if set {
			hs = append(hs, routing.Header{Name: name, Value: v})
		}
	}
	add(a.HasMessageTTL, "x-message-ttl", a.MessageTTL.Milliseconds())
	add(a.Expires > 0, "x-expires", a.Expires.Milliseconds())
	add(a.HasMaxLength, "x-max-length", int64(a.MaxLength))
	add(a.HasMaxBytes, "x-max-length-bytes", a.MaxBytes)
	add(a.Overflow != DropHead, "x-overflow", a.Overflow.String())
	if d := a.DeadLetter; d != nil {
		add(true, "x-dead-letter-exchange", d.Exchange)
		add(d.HasKey, "x-dead-letter-routing-key", d.Key)
	}
	add(a.MaxPriority > 0, "x-max-priority", int64(a.MaxPriority))
	add(a.MaxOvertakes > 0, "x-max-overtakes", int64(a.MaxOvertakes))
	add(a.SingleActive, "x-single-active-consumer", true)
	add(a.HasLimit, "x-delivery-limit", int64(a.DeliveryLimit))
	add(a.RedeliverWait > 0, "x-redelivery-delay", a.RedeliverWait.Milliseconds())
	add(a.LastValueKey != "", "x-last-value-key", a.LastValueKey)
	return append(hs, a.Shown...)
}
