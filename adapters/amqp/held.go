package amqp

import (
	"sort"

	"entrepot/core"
)

// heldMessage is a delivery that waits for its acknowledgement.
type heldMessage struct {
	tag  uint64 // its delivery tag; 0: settled, only its place is left
	seq  uint64
	size int
	from *consumer
}

// held is the deliveries of a channel that wait for their acknowledgement, in
// order of their tags, and what bounds them.
type held struct {
	list  []heldMessage
	front int // before it all are settled
	live  int // in list and not settled
	count int // not released, without those that basic.get took
	bytes int // of all that are not settled
	last  uint64
	limit int // basic.qos with global; 0: none
	// starved: consumers were refused for the limit.
	starved bool
}

// heldCost is what a delivery that is out costs beside its payload, about.
const heldCost = 100

// hold gives a delivery its tag and takes it in; false when the credit is used
// up.
func (ch *channel) hold(s *consumer, d core.Delivery) (tag uint64, ok bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	h := &ch.held
	if !s.noAck && h.limit > 0 && h.count >= h.limit {
		h.starved = true
		return 0, false
	}
	if !s.noAck && s.prefetch > 0 && s.out >= s.prefetch {
		return 0, false
	}
	if !s.noAck && ch.conn.unacked.Full() {
		return 0, false
	}
	h.last++
	if !s.noAck {
		ch.conn.unacked.Add(h.add(s, d))
	}
	return h.last, true
}

// add takes a delivery in under the last tag, and returns its bytes.
func (h *held) add(s *consumer, d core.Delivery) int {
	size := len(d.Payload) + heldCost
	h.list = append(h.list, heldMessage{tag: h.last, seq: d.Seq, size: size, from: s})
	h.live++
	h.bytes += size
	s.out++
	if !s.pull {
		h.count++
	}
	return size
}

// take removes what an acknowledgement reaches, that tag or all up to it, and
// appends it to taken; false when the tag is not out. 0 with multiple is all. It
// still counts until release. With the channel's mu held.
func (h *held) take(taken []heldMessage, tag uint64, multiple bool) ([]heldMessage, bool) {
	if multiple && tag == 0 {
		return h.takeUpTo(taken, len(h.list)), true
	}
	from := h.front
	at := from + sort.Search(len(h.list)-from, func(i int) bool { return h.list[from+i].place() >= tag })
	if at == len(h.list) || h.list[at].tag != tag {
		return taken, false
	}
	if multiple {
		return h.takeUpTo(taken, at+1), true
	}
	taken = append(taken, h.list[at])
	h.settle(at)
	h.tidy()
	return taken, true
}

func (h *held) takeUpTo(taken []heldMessage, to int) []heldMessage {
	for i := h.front; i < to; i++ {
		if h.list[i].tag != 0 {
			taken = append(taken, h.list[i])
			h.settle(i)
		}
	}
	h.tidy()
	return taken
}

// place is the tag, also of what was settled.
func (m *heldMessage) place() uint64 {
	if m.tag == 0 {
		return m.seq
	}
	return m.tag
}

// settle leaves the place only, with its tag in seq.
func (h *held) settle(i int) {
	h.list[i] = heldMessage{seq: h.list[i].tag}
	h.live--
}

// tidy forgets settled places when they are the greater part.
func (h *held) tidy() {
	for h.front < len(h.list) && h.list[h.front].tag == 0 {
		h.front++
	}
	switch {
	case h.front == len(h.list):
		h.list, h.front = h.list[:0], 0
		if cap(h.list) > 1024 {
			h.list = nil
		}
	case len(h.list) > 2*h.live+64:
		h.compact()
	}
}

// compact leaves only what is out.
func (h *held) compact() {
	kept := h.list[:0]
	for _, m := range h.list {
		if m.tag != 0 {
			kept = append(kept, m)
		}
	}
	clear(h.list[len(kept):])
	h.list, h.front = kept, 0
}

// restore puts back what take took, in its places. With the channel's mu held.
func (h *held) restore(taken []heldMessage) {
	if len(taken) == 0 {
		return
	}
	h.compact()
	h.list = append(h.list, taken...)
	h.live += len(taken)
	sort.Slice(h.list, func(i, j int) bool { return h.list[i].tag < h.list[j].tag })
}

// release ends the counting of what take took, and returns its bytes. starved
// tells that others may have waited for it. With the channel's mu held.
func (h *held) release(taken []heldMessage) (freed int, starved bool) {
	for i := range taken {
		freed += taken[i].size
		s := taken[i].from
		if s.out--; !s.pull {
			h.count--
		}
	}
	freed = min(freed, h.bytes) // what cancelAll let go of does not count again
	h.bytes -= freed
	starved = h.starved
	h.starved = false
	return freed, starved
}
