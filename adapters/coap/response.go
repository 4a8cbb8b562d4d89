package coap

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
)

// response is what a resource answers.
type response struct {
	code    codes.Code
	options message.Options
	payload []byte
}

// add puts an option in its place.
func (r *response) add(id message.OptionID, value []byte) {
	r.options = r.options.Add(message.Option{ID: id, Value: value})
}

func (r *response) addUint(id message.OptionID, n uint32) { r.add(id, uintBytes(n)) }

// addFormat says what the payload is.
func (r *response) addFormat(format int) {
	if format != noFormat {
		r.addUint(message.ContentFormat, uint32(format))
	}
}

// refusal is an error that has a code.
type refusal struct {
	code   codes.Code
	text   string
	maxAge uint32 // when to try again, in seconds; 0 does not say
}

func (f *refusal) Error() string { return f.text }

func refuse(code codes.Code, format string, args ...any) error {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

// kinds is what the core's refusals are in CoAP.
var kinds = [...]struct {
	kind error
	code codes.Code
}{
	{core.ErrNotFound, codes.NotFound},
	{core.ErrConflict, codes.Conflict},
	{core.ErrLocked, codes.Forbidden},
	{core.ErrInUse, codes.Conflict},
	{core.ErrNotAllowed, codes.Forbidden},
	{core.ErrFull, codes.ServiceUnavailable},
	{core.ErrTooLarge, codes.RequestEntityTooLarge},
	{core.ErrInvalid, codes.BadRequest},
	{core.ErrUnsupported, codes.NotImplemented},
	{core.ErrTimeout, codes.GatewayTimeout},
	{core.ErrClosed, codes.ServiceUnavailable},
}

// ended is the last word to observers of what is there no more.
func ended() *response { return &response{code: codes.NotFound} }

// maxDiagnostic bounds what an error says to the client, in bytes.
const maxDiagnostic = 120

// refusalOf is the answer to a request that failed: a code, and a sentence as
// diagnostic payload (RFC 7252, 5.5.2).
func refusalOf(err error) *response {
	res := &response{code: codes.InternalServerError}
	var f *refusal
	if errors.As(err, &f) {
		res.code = f.code
		if f.maxAge > 0 {
			res.addUint(message.MaxAge, f.maxAge)
		}
		res.payload = diagnostic(f.text)
		return res
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			res.code, res.payload = k.code, diagnostic(err.Error())
			return res
		}
	}
	return res
}

// diagnostic is a text without line ends, cut at a character.
func diagnostic(text string) []byte {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxDiagnostic {
		n := maxDiagnostic
		for !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return []byte(text)
}
