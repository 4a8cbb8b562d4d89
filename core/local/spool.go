package local

import (
	"encoding/binary"
	"fmt"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// Keys, all behind the realm's prefix:
//
//	r <queue 4> <255-priority 1> <seq 8>  a message waiting or out in a queue
//	a <queue 4> <seq 8>                   its attempts, only after a redelivery
//	q <kind 1> <name>                     a durable queue
//	e <name>                              a durable exchange
//	n <hash 16>                           a binding between durable ends
//	d <due 8> <n 8>                       a message for later, due in Unix milliseconds
//	B                                     the number of the last boot
const (
	keyMessage  = 'r'
	keyAttempts = 'a'
	keyQueue    = 'q'
	keyExchange = 'e'
	keyBinding  = 'n'
	keyBoot     = 'B'
)

// space builds the keys of one realm.
type space []byte

func (s space) appendMessage(k []byte, queue uint32, priority uint8, seq uint64) []byte {
	k = append(append(k, s...), keyMessage)
	k = binary.BigEndian.AppendUint32(k, queue)
	k = append(k, 255-priority)
	return binary.BigEndian.AppendUint64(k, seq)
}

func (s space) attempts(queue uint32, seq uint64) []byte {
	k := make([]byte, 0, len(s)+13)
	k = append(append(k, s...), keyAttempts)
	k = binary.BigEndian.AppendUint32(k, queue)
	return binary.BigEndian.AppendUint64(k, seq)
}

// all is the range of one queue's keys of a kind.
func (s space) all(kind byte, queue uint32) (first, end []byte) {
	first = append(append([]byte(nil), s...), kind)
	end = append([]byte(nil), first...)
	return binary.BigEndian.AppendUint32(first, queue), binary.BigEndian.AppendUint32(end, queue+1)
}

// Flags of a waiting message's value.
const (
	// ofBoot: a transient message, spilled; it counts only while the process
	// lives that wrote it, whose number follows.
	ofBoot = 1 << iota
	// hasDeadline: the wall-clock millisecond at which it expires follows.
	hasDeadline
)

// spool is a queue's part of the store.
type spool struct {
	store *store.Store
	space space
	queue uint32
	boot  uint64
	// ranked: the queue has priorities, and seqs their levels.
	ranked bool
}

// key is a message's.
func (s *spool) key(seq uint64) []byte { return s.appendKey(make([]byte, 0, len(s.space)+14), seq) }

func (s *spool) appendKey(k []byte, seq uint64) []byte {
	priority := uint8(0)
	if s.ranked {
		priority = 255 - uint8(seq>>rankShift)
	}
	return s.space.appendMessage(k, s.queue, priority, seq)
}

// seqOf is the seq in a message's key.
func seqOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// put adds an entry to a batch. transient ones are forgotten at a restart.
func (s *spool) put(b *store.Batch, e *entry, deadline time.Time, transient bool) {
	var buf [shortKey]byte
	b.SetBy(s.appendKey(buf[:0], e.seq), func(v []byte) []byte {
		flags := byte(0)
		if transient {
			flags |= ofBoot
		}
		if !deadline.IsZero() {
			flags |= hasDeadline
		}
		v = append(v, flags)
		if transient {
			v = binary.BigEndian.AppendUint64(v, s.boot)
		}
		if !deadline.IsZero() {
			v = binary.AppendVarint(v, deadline.UnixMilli())
		}
		v = binary.AppendUvarint(v, uint64(len(e.msg.Payload)))
		return core.AppendMessage(v, e.msg)
	})
}

// shortKey is room for the key of a message in most realms.
const shortKey = 64

// remove takes a message off, with its attempts where it has any.
func (s *spool) remove(b *store.Batch, seq uint64, tried bool) {
	var buf [shortKey]byte
	b.DeleteOnce(s.appendKey(buf[:0], seq))
	if tried {
		b.Delete(s.space.attempts(s.queue, seq))
	}
}

// tried notes the attempts of a message that came back.
func (s *spool) tried(b *store.Batch, seq uint64, attempts uint32) {
	b.Set(s.space.attempts(s.queue, seq), binary.BigEndian.AppendUint32(nil, attempts))
}

// clear removes all messages of the queue.
func (s *spool) clear(b *store.Batch) {
	b.DeleteRange(s.space.all(keyMessage, s.queue))
	b.DeleteRange(s.space.all(keyAttempts, s.queue))
}

// clearFrom removes the messages from seq on, with their attempts.
func (s *spool) clearFrom(b *store.Batch, seq uint64) {
	_, end := s.space.all(keyMessage, s.queue)
	b.DeleteRange(s.key(seq), end)
	_, end = s.space.all(keyAttempts, s.queue)
	b.DeleteRange(s.space.attempts(s.queue, seq), end)
}

// clearLevel removes the messages of one level from seq on, with their
// attempts.
func (s *spool) clearLevel(b *store.Batch, seq uint64) {
	last := seq | numberMask
	b.DeleteRange(s.key(seq), s.key(last))
	b.DeleteRange(s.space.attempts(s.queue, seq), s.space.attempts(s.queue, last))
}

// loaded is a message read back.
type loaded struct {
	msg       *core.Message
	seq       uint64
	deadline  time.Time
	transient bool
	size      int64
	stale     bool // of an older boot: not a message any more
	more      bool // the reading stopped here for its size
}

// load reads messages from seq from on up to and including last, at most n of
// them and about maxBytes.
func (s *spool) load(from, last uint64, n int, maxBytes int64) (out []loaded, err error) {
	var bad error
	err = s.store.Scan(s.key(from), s.key(last+1), func(key, value []byte) bool {
		var l loaded
		if l, bad = s.decode(key, value); bad != nil {
			return false
		}
		maxBytes -= int64(len(value))
		l.more = maxBytes <= 0
		out = append(out, l)
		return len(out) < n && !l.more
	})
	if err == nil {
		err = bad
	}
	return out, err
}

func (s *spool) decode(key, value []byte) (l loaded, err error) {
	l.seq = seqOf(key)
	rest, err := s.head(value, &l)
	if err != nil || l.stale {
		return l, err
	}
	if l.msg, err = core.DecodeMessage(rest); err != nil {
		return l, fmt.Errorf("queue %d, message %d: %w: %w", s.queue, l.seq, store.ErrCorrupt, err)
	}
	return l, nil
}

// head reads what precedes the message in a value.
func (s *spool) head(value []byte, l *loaded) (rest []byte, err error) {
	if len(value) == 0 {
		return nil, s.damaged(l)
	}
	flags, rest := value[0], value[1:]
	if flags&ofBoot != 0 {
		if len(rest) < 8 {
			return nil, s.damaged(l)
		}
		l.transient = true
		l.stale = binary.BigEndian.Uint64(rest) != s.boot
		rest = rest[8:]
	}
	if flags&hasDeadline != 0 {
		ms, n := binary.Varint(rest)
		if n <= 0 {
			return nil, s.damaged(l)
		}
		l.deadline = time.UnixMilli(ms)
		rest = rest[n:]
	}
	size, n := binary.Uvarint(rest)
	if n <= 0 {
		return nil, s.damaged(l)
	}
	l.size = int64(size)
	return rest[n:], nil
}

func (s *spool) damaged(l *loaded) error {
	return fmt.Errorf("queue %d, message %d: %w", s.queue, l.seq, store.ErrCorrupt)
}
