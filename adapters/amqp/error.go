package amqp

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// fault is a refusal that the client is told by channel.close or
// connection.close, as its code says.
type fault struct {
	code   frame.Code
	text   string
	method frame.Method // what was refused; 0: the one at hand
	cause  error
	fatal  bool // the stream of frames is broken: nothing more is read
}

// Error is the reply text.
func (f *fault) Error() string { return f.code.String() + " - " + f.text }

func (f *fault) Unwrap() error { return f.cause }

func refuse(code frame.Code, format string, args ...any) error {
	return &fault{code: code, text: fmt.Sprintf(format, args...)}
}

// broken is a fault after which no frame can be trusted.
func broken(code frame.Code, format string, args ...any) error {
	return &fault{code: code, text: fmt.Sprintf(format, args...), fatal: true}
}

// noun is a thing as refusals name it.
type noun struct{ kind, name, vhost string }

// String is the noun in RabbitMQ's words.
func (n noun) String() string { return fmt.Sprintf("%s '%s' in vhost '%s'", n.kind, n.name, n.vhost) }

func (c *conn) queueNoun(name string) noun    { return noun{"queue", name, c.vhost} }
func (c *conn) exchangeNoun(name string) noun { return noun{"exchange", name, c.vhost} }

// faultOf turns what the core says of a thing into what the client is told.
func (c *conn) faultOf(err error, about noun) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if d, ok := errors.AsType[*core.Difference](err); ok {
		return differenceFault(d, about)
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			return &fault{code: k.code, text: k.text(err, c, about), cause: err}
		}
	}
	return &fault{code: frame.InternalError, text: "internal error", cause: err}
}

// lockedText is what RabbitMQ says of a queue that is another connection's.
const lockedText = "cannot obtain exclusive access to locked %v. It could be originally declared on another " +
	"connection or the exclusive property value does not match that of the original declaration."

// kinds is the table of the core's refusals.
var kinds = [...]struct {
	kind error
	code frame.Code
	text func(err error, c *conn, about noun) string
}{
	{core.ErrNotFound, frame.NotFound, func(_ error, _ *conn, n noun) string { return "no " + n.String() }},
	{core.ErrConflict, frame.PreconditionFailed, plainText},
	{core.ErrLocked, frame.ResourceLocked, func(_ error, _ *conn, n noun) string { return fmt.Sprintf(lockedText, n) }},
	{core.ErrInUse, frame.PreconditionFailed, func(_ error, _ *conn, n noun) string { return n.String() + " in use" }},
	{core.ErrNotAllowed, frame.AccessRefused, refusedText},
	{core.ErrFull, frame.ResourceError, plainText},
	{core.ErrTooLarge, frame.ContentTooLarge, plainText},
	{core.ErrInvalid, frame.PreconditionFailed, plainText},
	{core.ErrUnsupported, frame.PreconditionFailed, plainText},
	{core.ErrTimeout, frame.InternalError, plainText},
	{core.ErrClosed, frame.ConnectionForced, plainText},
}

func plainText(err error, _ *conn, _ noun) string { return err.Error() }

func refusedText(_ error, c *conn, n noun) string {
	return fmt.Sprintf("access to %v refused for user '%s'", n, c.login.user())
}

// differenceFault is a declare that differs from what is there.
func differenceFault(d *core.Difference, about noun) *fault {
	if d.Property == "exclusive" {
		return &fault{code: frame.ResourceLocked, text: fmt.Sprintf(lockedText, about), cause: d}
	}
	return &fault{code: frame.PreconditionFailed, cause: d,
		text: fmt.Sprintf("inequivalent arg '%s' for %v: received %s but current is %s",
			d.Property, about, printDifferent(d.Property, d.Want), printDifferent(d.Property, d.Have))}
}

// printDifferent writes a value as RabbitMQ does in that text.
func printDifferent(property string, v any) string {
	switch v.(type) {
	case nil:
		return "none"
	case int64:
		return fmt.Sprintf("the value '%d' of type 'long'", v)
	case string:
		if property != "type" {
			return fmt.Sprintf("the value '%s' of type 'longstr'", v)
		}
	}
	return fmt.Sprintf("'%v'", v)
}

// clip shortens a reply text to what the wire carries.
func clip(text string) string {
	if len(text) <= frame.MaxShortText {
		return text
	}
	n := frame.MaxShortText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// appendClose writes connection.close or channel.close.
func appendClose(buf []byte, channel uint16, m frame.Method, f *fault) []byte {
	start := len(buf)
	buf = frame.Begin(buf, channel, m)
	buf = frame.AppendShort(buf, uint16(f.code))
	buf = frame.AppendShortText(buf, clip(f.Error()))
	buf = frame.AppendShort(buf, f.method.Class())
	buf = frame.AppendShort(buf, f.method.ID())
	return frame.End(buf, start)
}
