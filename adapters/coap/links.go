package coap

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/routing"
)

// maxLinks bounds the links of one answer.
const maxLinks = 10_000

// Resource types of links.
const (
	typeBroker     = "core.ps"
	typeCollection = "core.ps.coll"
	typeTopic      = "core.ps.conf"
	typeData       = "core.ps.data"
	typeProcedure  = "entrepot.rpc"
)

// link is one entry of a document in link format (RFC 6690).
type webLink struct {
	path     []string
	types    []string
	format   int
	observed bool
}

// append writes the link.
func (l *webLink) append(b []byte) []byte {
	b = append(append(b, '<'), href(l.path)...)
	b = append(b, '>')
	if len(l.types) > 0 {
		b = append(append(append(b, `;rt="`...), strings.Join(l.types, " ")...), '"')
	}
	if l.format != noFormat {
		b = strconv.AppendInt(append(b, ";ct="...), int64(l.format), 10)
	}
	if l.observed {
		b = append(b, ";obs"...)
	}
	return b
}

// href is a path as a URI reference has it (RFC 7252, 6.5).
func href(segments []string) []byte {
	const hex = "0123456789ABCDEF"
	var b []byte
	for _, s := range segments {
		b = append(b, '/')
		for i := range len(s) {
			if c := s[i]; plainByte(c) {
				b = append(b, c)
			} else {
				b = append(b, '%', hex[c>>4], hex[c&15])
			}
		}
	}
	return b
}

// plainByte tells what a path segment holds without percent signs: unreserved
// characters and sub-delimiters, but for those that mean something in a list of
// links.
func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$&'()*+=:@", c) >= 0
}

// linkQuery is the filter of RFC 6690, 4.1: all parameters have to fit.
type linkQuery []struct{ name, value string }

// links reads the query of a request for links.
func (r *request) links() (linkQuery, error) {
	var q linkQuery
	for _, part := range r.query {
		name, value, _ := bytes.Cut(part, []byte("="))
		if len(name) == 0 {
			return nil, refuse(codes.BadRequest, "a query is name=value")
		}
		q = append(q, struct{ name, value string }{string(name), string(value)})
	}
	return q, nil
}

func (q linkQuery) fits(l *webLink) bool {
	for _, part := range q {
		if !slices.ContainsFunc(l.attributes(part.name), func(have string) bool { return fitsValue(part.value, have) }) {
			return false
		}
	}
	return true
}

// attributes are the values that a link has under a name.
func (l *webLink) attributes(name string) []string {
	switch name {
	case "href":
		return []string{string(href(l.path))}
	case "rt":
		return l.types
	case "ct":
		if l.format != noFormat {
			return []string{strconv.Itoa(l.format)}
		}
	case "obs":
		if l.observed {
			return []string{""}
		}
	}
	return nil
}

// fitsValue compares; a value that ends with an asterisk is a beginning.
func fitsValue(want, have string) bool {
	if begin, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(have, begin)
	}
	return want == have
}

// documents is held by who makes a list of links: each may have megabytes, and
// clients may ask for many at once.
type documents struct{ sync.Mutex }

// document gathers links that fit.
type document struct {
	query linkQuery
	text  []byte
	count int
}

// add is false when there is no room for more.
func (d *document) add(l *webLink) bool {
	if !d.query.fits(l) {
		return true
	}
	if d.count++; d.count > maxLinks {
		return false
	}
	if len(d.text) > 0 {
		d.text = append(d.text, ',')
	}
	d.text = l.append(d.text)
	return true
}

// send answers with the document; later blocks are of the same one.
func (d *document) send(r *request) {
	res := &response{code: codes.Content, payload: d.text}
	res.addFormat(formatLinks)
	if room, _ := r.server.room(r.to); len(d.text) > room || r.block2.there {
		r.server.lists.keep(r.server.transferOf(r), *res, time.Minute)
	}
	r.respond(res)
}

// sent answers with a later block of the document that was sent a moment ago.
func (r *request) sent() bool {
	if !r.block2.there || r.block2.num == 0 {
		return false
	}
	res, ok := r.server.lists.get(r.server.transferOf(r))
	if ok {
		r.respond(&res)
	}
	return ok
}

// wellKnown serves /.well-known/core: what the client may see.
func (s *Server) wellKnown(r *request, rest [][]byte) {
	switch {
	case len(rest) != 1 || string(rest[0]) != "core":
		r.fail(refuse(codes.NotFound, "no such resource"))
	case r.code != codes.GET:
		r.fail(refuse(codes.MethodNotAllowed, "GET"))
	case !r.sent():
		s.later(r, s.discover)
	}
}

func (s *Server) discover(r *request) {
	query, err := r.links()
	if err != nil {
		r.fail(err)
		return
	}
	session, err := r.to.link.identity()
	if err != nil {
		r.fail(err)
		return
	}
	s.documents.Lock()
	defer s.documents.Unlock()
	d := &document{query: query}
	d.add(&webLink{path: []string{wellKnownRoot, "core"}, format: formatLinks})
	d.add(&webLink{path: []string{collectionRoot}, types: []string{typeBroker, typeCollection}, format: formatLinks})
	s.eachProcedure(session, d)
	s.shelf.each(session, func(e *entry) bool { return d.add(e.link()) && d.add(e.dataLink()) })
	d.send(r)
}

// eachProcedure adds the procedures that have a name of their own.
func (s *Server) eachProcedure(session *core.Session, d *document) {
	for _, p := range s.broker.Procedures() {
		t, plain := p.Filter.Topic()
		if !plain || p.IsPrefix() || session.Allowed(auth.Call, auth.Object{Kind: auth.Procedure, Name: t.String()}) != nil {
			continue
		}
		if segments, err := routing.Path.PrintTopic(t); err == nil {
			d.add(&webLink{path: append([]string{procedureRoot}, segments...), types: []string{typeProcedure}, format: noFormat})
		}
	}
}
