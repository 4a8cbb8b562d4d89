package stomp

import (
	"errors"
	"fmt"

	"entrepot/core"
)

// fault is a refusal that the client is told by an ERROR frame: a sentence for its
// message header, and more in the body.
type fault struct {
	message string
	detail  string
	cause   error
	about   string // the subscription that it ends, as the client wrote it
}

func (f *fault) Error() string {
	if f.detail == "" {
		return f.message
	}
	return f.message + ": " + f.detail
}

func (f *fault) Unwrap() error { return f.cause }

// malformed is a frame that breaks the protocol.
func malformed(format string, args ...any) error {
	return &fault{message: "malformed frame received", detail: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &fault{message: "frame too large", detail: fmt.Sprintf(format, args...), cause: core.ErrTooLarge}
}

// bad is a frame that is whole but asks for what cannot be.
func bad(format string, args ...any) error {
	return &fault{message: fmt.Sprintf(format, args...)}
}

// kinds is what the core's refusals are called in the message header.
var kinds = [...]struct {
	kind    error
	message string
}{
	{core.ErrNotFound, "not found"},
	{core.ErrConflict, "exists with other properties"},
	{core.ErrLocked, "held by another session"},
	{core.ErrInUse, "in use"},
	{core.ErrNotAllowed, "access refused"},
	{core.ErrFull, "no room"},
	{core.ErrTooLarge, "message too large"},
	{core.ErrInvalid, "invalid request"},
	{core.ErrUnsupported, "not supported"},
	{core.ErrTimeout, "timed out"},
	{core.ErrClosed, "session ended"},
}

// faultOf turns a refusal into what the client is told.
func faultOf(err error) *fault {
	var f *fault
	if errors.As(err, &f) {
		return f
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			return &fault{message: k.message, detail: err.Error(), cause: err}
		}
	}
	return &fault{message: "internal error", cause: err}
}

// errRefused ends a connection whose client was sent an ERROR.
var errRefused = errors.New("client was refused")

// refuse sends an ERROR, the last frame of the connection; the first one counts. It
// may be called from any goroutine.
func (c *conn) refuse(b *core.Batch, err error, receipt []byte) {
	f := faultOf(err)
	buf := c.conn.Outbox.BeginAnswer()
	if c.ended {
		c.conn.Outbox.Cancel()
		return
	}
	c.ended = true
	c.conn.Outbox.End(b, appendError(buf, c.spoken, f, receipt))
}

// appendError writes an ERROR frame. receipt is as the client sent it.
func appendError(buf []byte, v version, f *fault, receipt []byte) []byte {
	buf = append(buf, "ERROR"...)
	buf = v.appendHeader(buf, "message", f.message)
	if receipt != nil {
		buf = append(append(buf, "\nreceipt-id:"...), receipt...)
	}
	if f.about != "" {
		buf = append(append(buf, "\nsubscription:"...), f.about...)
	}
	if f.message == noVersion {
		buf = append(buf, "\nversion:1.0,1.1,1.2"...)
	}
	body := f.Error() + "\n"
	buf = append(buf, "\ncontent-type:text/plain\ncontent-length:"...)
	buf = appendInt(buf, len(body))
	buf = append(buf, "\n\n"...)
	buf = append(buf, body...)
	return append(buf, 0)
}
