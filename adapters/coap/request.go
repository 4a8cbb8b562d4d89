package coap

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// request is what a client asks for: an exchange with its options read. Its
// slices lie in the bytes that it came in, so a resource that goes on after its
// return takes a copy (detach).
type request struct {
	*exchange
	code codes.Code
	body []byte // options and payload, as they came

	options message.Options
	payload []byte

	path    [][]byte
	query   [][]byte
	etags   [][]byte
	match   [][]byte // If-Match; empty: anything that is there
	absent  bool     // If-None-Match
	observe int      // -1: none
	format  int      // noFormat: none
	accept  int      // noFormat: none
	maxAge  int64    // -1: none
	block1  block
	block2  block
	size1   uint32
	echo    []byte
	tag     []byte // Request-Tag
	proxy   bool

	seen message.OptionID // the last option, to find repeated ones
}

// reset makes r ready for the next message.
func (r *request) reset() {
	*r = request{path: r.path[:0], query: r.query[:0], etags: r.etags[:0], match: r.match[:0],
		observe: -1, format: noFormat, accept: noFormat, maxAge: -1}
}

// read sorts the options. The code of its error is 4.02 for a critical option
// that is not known or not right (RFC 7252, 5.4.1, 5.4.3, 5.4.5).
func (r *request) read() error {
	for _, o := range r.options {
		again := o.ID == r.seen
		r.seen = o.ID
		if !r.take(o.ID, o.Value, again) && o.ID&1 == 1 {
			return refuse(codes.BadOption, "option %d", o.ID)
		}
	}
	return nil
}

// take reads one option; false when it is as if it were not known.
func (r *request) take(id message.OptionID, v []byte, again bool) bool {
	switch id {
	case message.URIPath:
		r.path = append(r.path, v)
		return len(v) <= 255
	case message.URIQuery:
		r.query = append(r.query, v)
		return len(v) <= 255
	case message.ETag:
		if len(v) >= 1 && len(v) <= 8 {
			r.etags = append(r.etags, v)
		}
		return true
	case message.IfMatch:
		r.match = append(r.match, v)
		return len(v) <= 8
	}
	return !again && r.takeSingle(id, v)
}

// takeSingle reads an option that may be there once.
func (r *request) takeSingle(id message.OptionID, v []byte) bool {
	switch id {
	case message.URIHost:
		return len(v) >= 1 && len(v) <= 255
	case message.URIPort:
		return len(v) <= 2
	case message.IfNoneMatch:
		r.absent = true
		return len(v) == 0
	case message.Observe:
		return uintInto(&r.observe, v, 3)
	case message.ContentFormat:
		return uintInto(&r.format, v, 2)
	case message.Accept:
		return uintInto(&r.accept, v, 2)
	case message.Block1:
		return r.block1.read(v, r.exchange.turn != nil)
	case message.Block2:
		return r.block2.read(v, r.exchange.turn != nil)
	case message.ProxyURI, message.ProxyScheme:
		r.proxy = true
		return true
	}
	return r.takeElective(id, v)
}

func (r *request) takeElective(id message.OptionID, v []byte) bool {
	switch id {
	case message.MaxAge:
		if len(v) <= 4 {
			r.maxAge = int64(uintOf(v))
		}
	case message.Size1:
		if len(v) <= 4 {
			r.size1 = uintOf(v)
		}
	case message.Echo:
		r.echo = v
	case message.RequestTag:
		r.tag = v
	case message.NoResponse:
		if len(v) <= 1 {
			r.exchange.quiet = uint8(uintOf(v))
		}
	default:
		return false
	}
	return true
}

func uintInto(to *int, v []byte, most int) bool {
	if len(v) > most {
		return false
	}
	*to = int(uintOf(v))
	return true
}

// takes tells whether the client takes an answer's format (RFC 7252, 5.10.4).
func (r *request) takes(res *response) error {
	if r.accept == noFormat || res.code>>5 != codes.Content>>5 {
		return nil
	}
	format, err := res.options.ContentFormat()
	switch {
	case err == nil:
		return r.wants(int(format))
	case len(res.payload) > 0:
		return r.wants(noFormat)
	}
	return nil
}

// wants is takes for an answer of a format that is known before.
func (r *request) wants(format int) error {
	if r.accept == noFormat || r.accept == format {
		return nil
	}
	return refuse(codes.NotAcceptable, "the answer has another format")
}

// hold counts a request of a stream among those for which the stream may not be
// read on. Calls are not: others answer them, maybe by the same stream.
func (r *request) hold() {
	x := r.exchange
	if root, _ := r.root(); x.turn == nil || root == procedureRoot {
		return
	}
	x.held, x.weight = true, max(x.size, len(r.payload))
	x.turn.hold(x.weight)
}

// conditional tells that the request has If-Match or If-None-Match.
func (r *request) conditional() bool { return r.absent || len(r.match) > 0 }

// detach is a copy that outlives the bytes that r came in.
func (r *request) detach() *request {
	c := &request{}
	c.reset()
	c.exchange, c.code = r.exchange, r.code
	c.body = bytes.Clone(r.body)
	var p packet
	// What was read once can be read again.
	_ = p.decodeBody(c.body)
	c.options, c.payload = p.options, p.payload
	_ = c.read()
	if c.exchange.upload != nil { // the whole body, which is r's own
		c.payload = r.payload
	}
	return c
}

// root is the first segment of the path, and the rest.
func (r *request) root() (string, [][]byte) {
	if len(r.path) == 0 {
		return "", nil
	}
	return string(r.path[0]), r.path[1:]
}

// texts are path segments as strings; false when one is not UTF-8.
func texts(segments [][]byte) ([]string, bool) {
	all := make([]string, len(segments))
	for i, s := range segments {
		if !utf8.Valid(s) {
			return nil, false
		}
		all[i] = string(s)
	}
	return all, true
}

// queries are the names and values of Uri-Query. Names that are not among
// known are refused, so that a slip is not taken for consent.
func (r *request) queries(known ...string) (map[string]string, error) {
	if len(r.query) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	for _, q := range r.query {
		name, value, _ := bytes.Cut(q, []byte("="))
		if !slices.Contains(known, string(name)) {
			return nil, refuse(codes.BadRequest, "query %.40q is not known here", name)
		}
		if _, twice := values[string(name)]; twice || !utf8.Valid(value) {
			return nil, refuse(codes.BadRequest, "query %.40q: once, and UTF-8", name)
		}
		values[string(name)] = string(value)
	}
	return values, nil
}
