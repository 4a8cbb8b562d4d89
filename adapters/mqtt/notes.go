package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"

	"entrepot/core"
)

// What is on the disk of a session that lasts, as its notes (core.Note):
//
//	sub/<filter>     a subscription: its options
//	in/<packet id 2> a QoS 2 message of the client that it has not released
//	out/<packet id 2> a QoS 2 message on its way to the client: a record
//	one              QoS 1 messages that were out when the last connection
//	                 ended: packet id 2, seq 8 of each
//
// QoS 1 has no record a message, which would cost each a write more: after a
// crash under a connection such a message comes with another identifier.
const (
	subNote = "sub/"
	inNote  = "in/"
	outNote = "out/"
	oneNote = "one"
)

// The first byte of a record; eight bytes follow.
const (
	inQueue  = 'q' // sent from the session's queue, where it has that seq
	inWork   = 'w' // sent from a named queue, which has it again after a restart
	inNotes  = 'm' // a group's; the subscription and the message follow its place in the order
	inClient = 'r' // the client has it and is to release its identifier, in that order
)

func idKey(kind string, id uint16) []byte { return binary.BigEndian.AppendUint16([]byte(kind), id) }

// outgoing is a record of a message.
func outgoing(id uint16, kind byte, n uint64, rest ...byte) core.Note {
	value := binary.BigEndian.AppendUint64(append(make([]byte, 0, 9+len(rest)), kind), n)
	return core.Note{Key: idKey(outNote, id), Value: append(value, rest...)}
}

// incoming notes an identifier of the client.
func incoming(id uint16) core.Note { return core.Note{Key: idKey(inNote, id), Value: []byte{1}} }

// note of a subscription.
func (s *subscription) note() core.Note {
	return core.Note{Key: []byte(subNote + s.text), Value: s.appendOptions(nil)}
}

const (
	optionNoLocal     = 4
	optionAsPublished = 8
)

func (s *subscription) appendOptions(b []byte) []byte {
	options := s.qos
	if s.noLocal {
		options |= optionNoLocal
	}
	if s.asPublished {
		options |= optionAsPublished
	}
	return binary.AppendUvarint(append(b, options), uint64(s.id))
}

var errNote = errors.New("a note that cannot be read")

// subscriptionOf makes a subscription of what is noted, and returns what
// follows its options.
func subscriptionOf(text string, options []byte) (*subscription, []byte, error) {
	sub, err := parseFilter(text)
	if err != nil {
		return nil, nil, err
	}
	if len(options) < 2 {
		return nil, nil, errNote
	}
	sub.qos = options[0] & 3
	sub.noLocal, sub.asPublished = options[0]&optionNoLocal != 0, options[0]&optionAsPublished != 0
	id, n := binary.Uvarint(options[1:])
	if n <= 0 {
		return nil, nil, errNote
	}
	sub.id = uint32(id)
	return &sub, options[1+n:], nil
}

// appendKept is what a record has of a group's message.
func appendKept(b []byte, sub *subscription, m *core.Message) []byte {
	b = appendText(b, sub.text)
	return core.AppendMessage(sub.appendOptions(b), m)
}

func keptOf(b []byte) (*subscription, *core.Message, error) {
	text, rest, err := takeBytes(b)
	if err != nil {
		return nil, nil, err
	}
	sub, rest, err := subscriptionOf(string(text), rest)
	if err != nil {
		return nil, nil, err
	}
	m, err := core.DecodeMessage(rest)
	return sub, m, err
}

// EachNote implements core.Noted.
func (s *session) EachNote(f func(key, value []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := func(n core.Note) { f(n.Key, n.Value) }
	s.subs.each(func(sub *subscription) { each(sub.note()) })
	for id := range s.incoming {
		if _, unknown := s.pending[id]; !unknown {
			each(incoming(id))
		}
	}
	for i := range s.flight.parcels {
		if n, ok := s.flight.parcels[i].note(); ok {
			each(n)
		}
	}
	if s.one != nil {
		f([]byte(oneNote), s.one)
	}
}

// note is the parcel's record, where it has one.
func (p *parcel) note() (core.Note, bool) {
	switch {
	case p.stage == released:
		return outgoing(p.id, inClient, p.seq), true
	case p.stage != sent2:
		return core.Note{}, false
	case p.msg != nil:
		// Until it is taken from the group it is there.
		return outgoing(p.id, inNotes, p.seq, appendKept(nil, p.sub, p.msg)...), !p.coming()
	case p.from.kind == work:
		return outgoing(p.id, inWork, p.seq), true
	}
	return outgoing(p.id, inQueue, p.seq), true
}

// rebuild makes the session what its notes say, after a restart.
func (s *session) rebuild(from *core.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rebuilt = true
	var bad error
	err := from.Notes(nil, func(key, value []byte) {
		if err := s.take(string(key), value); err != nil && bad == nil {
			bad = fmt.Errorf("note %q: %w", key, err)
		}
	})
	if err == nil {
		err = bad
	}
	return err
}

// take reads one note.
func (s *session) take(key string, value []byte) error {
	switch {
	case len(key) > len(subNote) && key[:len(subNote)] == subNote:
		sub, _, err := subscriptionOf(key[len(subNote):], value)
		if err == nil {
			s.subs.put(sub)
		}
		return err
	case len(key) == len(inNote)+2 && key[:len(inNote)] == inNote:
		if s.incoming == nil {
			s.incoming, s.pending = map[uint16]struct{}{}, map[uint16][]*conn{}
		}
		s.incoming[binary.BigEndian.Uint16([]byte(key[len(inNote):]))] = struct{}{}
		return nil
	case len(key) == len(outNote)+2 && key[:len(outNote)] == outNote:
		return s.takeOutgoing(binary.BigEndian.Uint16([]byte(key[len(outNote):])), value)
	case key == oneNote:
		s.one = append([]byte{}, value...)
		return s.takeOnes(value)
	}
	return nil // of a newer version
}

func (s *session) takeOutgoing(id uint16, value []byte) error {
	if len(value) < 9 {
		return errNote
	}
	kind, n := value[0], binary.BigEndian.Uint64(value[1:])
	p := parcel{id: id, seq: n, stage: sent2}
	switch kind {
	case inQueue:
		p.from = &source{kind: topics}
	case inWork:
		p.from = &source{kind: work}
	case inNotes:
		p.from = &source{kind: shared}
		var err error
		if p.sub, p.msg, err = keptOf(value[9:]); err != nil {
			return err
		}
	case inClient:
		p.from, p.stage = &source{kind: topics}, released
	default:
		return errNote
	}
	if kind == inNotes || kind == inClient {
		s.flight.order = max(s.flight.order, n)
	}
	s.flight.insert(p)
	return nil
}

func (s *session) takeOnes(value []byte) error {
	if len(value)%10 != 0 {
		return errNote
	}
	for ; len(value) > 0; value = value[10:] {
		id := binary.BigEndian.Uint16(value)
		if s.flight.find(id) == nil {
			s.flight.insert(parcel{id: id, seq: binary.BigEndian.Uint64(value[2:]), stage: sent1, from: &source{kind: topics}})
		}
	}
	return nil
}

// insert puts a parcel in under its own identifier, which is not in use.
func (f *flight) insert(p parcel) {
	for len(f.parcels) == 0 || f.parcels[int(p.id)&(len(f.parcels)-1)].stage != free {
		f.grow()
	}
	f.parcels[int(p.id)&(len(f.parcels)-1)] = p
	f.count++
	f.last = max(f.last, p.id)
}

// keep writes a note for a session that lasts, waiting for nothing. With mu
// held. A disk that fails is told what it missed when it works again.
func (s *session) keep(n core.Note) {
	if s.conn.gate != nil {
		_ = s.conn.session.Keep([]core.Note{n}, nil)
	}
}

// keepFor writes notes for the session if it is c's; done as for
// core.Session.Keep.
func (s *session) keepFor(c *conn, done func(error), notes ...core.Note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.owned(c); err != nil {
		return err
	}
	return c.session.Keep(notes, done)
}

// park notes the QoS 1 messages that are out, so that they come again under
// their identifiers also after a restart ([MQTT-4.4.0-1]).
func (s *session) park(c *conn) {
	if c.gate == nil || !c.session.Lasting() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return
	}
	var list []byte
	for i := range s.flight.parcels {
		if p := &s.flight.parcels[i]; p.stage == sent1 && p.from.kind == topics {
			list = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(list, p.id), p.seq)
		}
	}
	if list != nil {
		s.one = list
		s.keep(core.Note{Key: []byte(oneNote), Value: list})
	}
}

// unpark: from here on a connection has them.
func (s *session) unpark() {
	if s.one != nil {
		s.one = nil
		s.keep(core.Note{Key: []byte(oneNote)})
	}
}

// lost takes the parcels out whose message is not in the session's queue any
// more, which a restart does to messages in memory only, and which were dropped:
// those before a place that the queue has come to. The client may know the
// identifiers of QoS 2, and forgets them when they are released.
func (s *session) lost(c *conn, before uint64) (release []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	left := false
	for seq, id := range s.returning {
		p := s.flight.find(id)
		if seq >= before || p == nil || p.waits {
			left = left || p != nil && !p.waits && seq > before
			continue
		}
		delete(s.returning, seq)
		if p.stage == sent1 {
			s.flight.drop(p)
			continue
		}
		s.flight.release(p)
		s.keep(outgoing(id, inClient, p.seq))
		release = append(release, id)
	}
	s.whole.Store(!left)
	s.recalled()
	return release
}
