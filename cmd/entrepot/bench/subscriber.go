package bench

import (
	"encoding/binary"
	"time"
)

// subscriber counts what one connection is sent. It belongs to the goroutine
// that pumps its link; only the progress of its flows is shared.
type subscriber struct {
	link    *link
	run     uint32
	first   int    // the publisher of flows[0]
	flows   []flow // one for each publisher that it should hear
	head    uint64 // of the payload before, where current is not nil
	current *flow  // of the payload before; nil: none yet
	foreign uint64 // messages of no such publisher, or of another run
	started time.Time
	latency *histogram // nil: not measured
}

// flow is all from one publisher to one subscriber.
type flow struct {
	ledger
	progress *progress
}

func newSubscriber(l *link, run uint32, first, publishers int) *subscriber {
	s := &subscriber{link: l, run: run, first: first, flows: make([]flow, publishers)}
	for i := range s.flows {
		s.flows[i].progress = newProgress()
	}
	return s
}

// take counts one message. The payload may be reused after.
func (s *subscriber) take(payload []byte) {
	if len(payload) < payloadHead {
		s.foreign++
		return
	}
	if head := binary.BigEndian.Uint64(payload); (s.current == nil || head != s.head) && !s.turn(head) {
		s.foreign++
		return
	}
	s.current.take(getDigits(payload[8:]))
	if s.latency != nil && len(payload) >= payloadStamped {
		if sent := getDigits(payload[16:]); sent != 0 {
			s.latency.add(time.Since(s.started) - time.Duration(sent))
		}
	}
}

// turn makes the publisher with this head the current one.
func (s *subscriber) turn(head uint64) bool {
	publisher, run := publisherOf(head)
	i := publisher - s.first
	if run != s.run || i < 0 || i >= len(s.flows) {
		return false
	}
	s.head, s.current = head, &s.flows[i]
	return true
}

// settle shows the publishers how far the subscriber is. Called once for each
// read.
func (s *subscriber) settle() {
	for i := range s.flows {
		f := &s.flows[i]
		if got := f.delivered(); got != f.progress.got.Load() {
			f.progress.show(f.next, got)
		}
	}
}
