package coap

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// idSlices part the lifetime of message ids; the oldest slice is forgotten as a
// whole.
const idSlices = 4

// answer says what became of a message id: a code in the low byte, and a state.
type answer uint16

const (
	pendingAnswer answer = 1 << 8 // nothing was sent yet
	ackedAnswer   answer = 2 << 8 // an empty acknowledgement was sent
	bareAnswer    answer = 3 << 8 // a code without options and payload
	bodyAnswer    answer = 4 << 8 // the message is kept
	ignoredAnswer answer = 5 << 8 // nothing is sent
	answerState   answer = 0xff00
)

func (a answer) code() codes.Code { return codes.Code(a & 0xff) }

// ids remembers message ids for their lifetime, and what was answered, so that
// a request which comes again is carried out once and answered the same (RFC
// 7252, 4.5). An id is a hash of address, port, socket and number under a secret seed:
// two that are alive at once share one in less than one of 10^12 messages.
type ids struct {
	seed  maphash.Seed
	slice time.Duration
	most  int

	mu     sync.Mutex
	slices [idSlices + 1]idSlice // the youngest first
	count  int
	bytes  int
	early  uint64 // ids that were forgotten before their time
}

type idSlice struct {
	began  time.Time
	known  map[uint64]answer
	bodies map[uint64][]byte
}

// maxAnswers bounds the bytes of answers that are kept for repetition.
const maxAnswers = 64 << 20

func newIDs(lifetime time.Duration, most int) *ids {
	return &ids{seed: maphash.MakeSeed(), slice: lifetime / idSlices, most: most}
}

// key names a message of a peer to one of our sockets: to another one the peer
// may use the same id (RFC 7252, 4.4).
func (d *ids) key(to uint32, from netip.AddrPort, id uint16) uint64 {
	var b [24]byte
	a := from.Addr().As16()
	copy(b[:], a[:])
	binary.BigEndian.PutUint16(b[16:], from.Port())
	binary.BigEndian.PutUint16(b[18:], id)
	binary.BigEndian.PutUint32(b[20:], to)
	return maphash.Bytes(d.seed, b[:])
}

// begin notes a new id as pending, or tells what became of a known one; body
// is not to be changed.
func (d *ids) begin(key uint64, now time.Time) (a answer, body []byte, seen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
	for i := range d.slices {
		if a, seen = d.slices[i].known[key]; seen {
			return a, d.slices[i].bodies[key], true
		}
	}
	d.rotate(now)
	d.slices[0].known[key] = pendingAnswer
	d.count++
	return 0, nil, false
}

// end notes what was answered. The body, if any, is kept.
func (d *ids) end(key uint64, a answer, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.slices {
		s := &d.slices[i]
		if _, ok := s.known[key]; !ok {
			continue
		}
		if a&answerState == bodyAnswer {
			if d.bytes+len(body) > maxAnswers {
				a = ignoredAnswer // the client asks in vain, but nothing is done twice
			} else {
				s.keep(key, body)
				d.bytes += len(body)
			}
		}
		s.known[key] = a
		return
	}
}

func (s *idSlice) keep(key uint64, body []byte) {
	if s.bodies == nil {
		s.bodies = map[uint64][]byte{}
	}
	s.bodies[key] = body
}

// rotate begins a new slice when the youngest is full of time, and makes room
// when there are too many ids. With mu held.
func (d *ids) rotate(now time.Time) {
	if d.count >= d.most {
		i := idSlices
		for i > 0 && len(d.slices[i].known) == 0 {
			i--
		}
		d.early += uint64(len(d.slices[i].known))
		d.forget(&d.slices[i])
	}
	hint := 0
	if first := &d.slices[0]; first.known != nil {
		if now.Sub(first.began) < d.slice {
			return
		}
		hint = len(first.known)
	}
	d.forget(&d.slices[idSlices])
	copy(d.slices[1:], d.slices[:idSlices])
	d.slices[0] = idSlice{began: now, known: make(map[uint64]answer, hint)}
}

// expire forgets what is past its lifetime. With mu held.
func (d *ids) expire(now time.Time) {
	for i := range d.slices {
		if s := &d.slices[i]; s.known != nil && now.Sub(s.began) >= d.slice*(idSlices+1) {
			d.forget(s)
		}
	}
}

// sweep is expire for a time without messages.
func (d *ids) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.expire(now)
}

// size is how many ids are known, and the bytes of answers that are kept.
func (d *ids) size() (known, answers int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, d.bytes
}

func (d *ids) forget(s *idSlice) {
	d.count -= len(s.known)
	for _, b := range s.bodies {
		d.bytes -= len(b)
	}
	*s = idSlice{}
}
