package local

import (
	"errors"
	"fmt"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

// Dead letters. What a queue with a dead-letter exchange gives up is collected
// under its lock; a goroutine that lives while there is something to do sends
// each to its targets by one apply, which takes it off the source as one with
// it. While no target takes a letter (the exchange is missing, no queue is
// bound, one is full or its disk fails) it stays a message of the source, on
// disk where it was, and is tried again. Where all targets are queues that it
// went round already (see inCycle) it is given up and counted.

// letter is an entry that was taken out of its queue, on its way.
type letter struct {
	entry
	why     core.DropReason
	size    int64
	refused bool // at publish (reject-publish-dlx): its publisher has it still
}

// letters are those of one queue. Under queue.mu, as its methods expect; nil
// while there was none.
type letters struct {
	list   []letter
	bytes  int64 // payloads held in memory
	busy   bool  // a goroutine works on them, or the timer is set
	sent   int   // of the round that goes on, not yet on their way
	flying int   // on their way to the disk
	timer  *time.Timer
	pause  time.Duration // before the next try; 0: the last went well
}

const (
	lettersAtOnce  = 256
	lettersInMem   = 4 << 20 // payload bytes; what is beyond, and on disk, is read again
	firstPause     = 100 * time.Millisecond
	longestPause   = 5 * time.Second
	refusedInARow  = 64 // letters that no target takes, after which a round ends
	limitWithDeath = 20 // deliveries given back, by default
)

// limitOf is how often a message may be given back; negative: as often as it
// likes.
func limitOf(k core.QueueKey, a *core.QueueArgs) int {
	switch {
	case k.Kind == core.SessionQueue:
		return -1
	case a.HasLimit:
		return a.DeliveryLimit
	case a.DeadLetter != nil:
		return limitWithDeath
	}
	return -1
}

// post takes an entry that was given up as a dead letter; false: it is none.
func (q *queue) post(e entry, why core.DropReason) bool {
	if _, ok := deathOf(why); !ok || q.args.DeadLetter == nil || q.dead {
		return false
	}
	q.postLetter(letter{entry: e, why: why, size: e.size()})
	return true
}

func (q *queue) postLetter(l letter) {
	if q.letters == nil {
		q.letters = &letters{}
	}
	q.letters.add(l)
	if !q.letters.busy {
		q.letters.busy = true
		go q.deliverLetters()
	}
}

// add lets go of the payload where there are many and it is on disk.
func (s *letters) add(l letter) {
	if s.bytes+l.size > lettersInMem && l.stored {
		l.msg = nil
	} else {
		s.bytes += l.size
	}
	s.list = append(s.list, l)
}

// next takes up to lettersAtOnce out.
func (s *letters) next() []letter {
	n := min(len(s.list), lettersAtOnce)
	round := append([]letter(nil), s.list[:n]...)
	clear(s.list[:n])
	if s.list = s.list[n:]; len(s.list) == 0 {
		s.list = nil
	}
	for i := range round {
		if round[i].msg != nil {
			s.bytes -= round[i].size
		}
	}
	s.sent = n
	return round
}

// keep puts letters back in front, those that nobody took.
func (s *letters) keep(back []letter) {
	rest := s.list
	s.list = nil
	for _, l := range back {
		s.add(l)
	}
	s.list = append(s.list, rest...)
}

// count is what the queue has not got rid of: what waits, what a round has in
// hand and what is on its way to the disk.
func (s *letters) count() int {
	if s == nil {
		return 0
	}
	return len(s.list) + s.sent + s.flying
}

// deliverLetters sends what there is. Without mu.
func (q *queue) deliverLetters() {
	b := &core.Batch{}
	for {
		q.mu.Lock()
		s := q.letters
		round := s.next()
		if len(round) == 0 || q.dead {
			s.busy = false
			q.unlock()
			return
		}
		q.unlock()
		back, err := q.sendRound(b, round)
		b.Flush()
		q.mu.Lock()
		wait := q.lettersKept(back, err)
		q.unlock()
		if wait {
			return
		}
	}
}

// sendRound returns the letters that no target took, and why not.
func (q *queue) sendRound(b *core.Batch, round []letter) (back []letter, why error) {
	for i := range round {
		if len(back) == refusedInARow && len(back) == i {
			back = append(back, round[i:]...)
			break
		}
		p, err := q.engine.address(b, q, &round[i])
		if err == nil && p != nil && len(back) > 0 {
			// Its target was made, or has room, since the others were tried.
			p.undo(b)
			back = q.sendAgain(b, back)
			p, err = q.engine.address(b, q, &round[i])
		}
		switch {
		case err != nil:
			back, why = append(back, round[i]), err
		case p != nil:
			p.send(b, q, &round[i])
		}
	}
	return back, why
}

// sendAgain tries those that no target took a moment ago before a younger one
// passes them, and returns those that none takes yet.
func (q *queue) sendAgain(b *core.Batch, back []letter) (left []letter) {
	for i := range back {
		p, err := q.engine.address(b, q, &back[i])
		switch {
		case err != nil:
			left = append(left, back[i])
		case p != nil:
			p.send(b, q, &back[i])
		}
	}
	return left
}

// lettersKept notes how a round went; true: the timer goes on.
func (q *queue) lettersKept(back []letter, why error) bool {
	s := q.letters
	s.sent = 0
	if q.dead || errors.Is(why, store.ErrClosed) {
		return false
	}
	if len(back) == 0 {
		s.pause = 0
		return false
	}
	s.keep(back)
	if s.pause == 0 {
		q.engine.log.Warn("dead letters wait in their queue: no target takes them", "queue", q.key.String(), "error", why)
	}
	s.pause = min(max(2*s.pause, firstPause), longestPause)
	s.timer = time.AfterFunc(s.pause, q.deliverLetters)
	return true
}

// clearLetters forgets what waits and returns how many that were.
func (q *queue) clearLetters() int {
	s := q.letters
	if s == nil {
		return 0
	}
	n := len(s.list)
	for _, l := range s.list {
		q.bytes -= l.size
		if l.stored {
			q.shelf.remove(l.seq, l.attempts > 0)
		}
	}
	s.list, s.bytes = nil, 0
	if s.timer != nil && s.timer.Stop() {
		s.busy = false
	}
	return n
}

// posting is a letter that has a place in each of its targets.
type posting struct {
	*apply
	message *core.Message
}

// address finds places for one letter; an error says why it stays, nil and no
// posting that it is gone. Without mu.
func (e *Engine) address(b *core.Batch, q *queue, l *letter) (*posting, error) {
	if e.disk != nil {
		e.disk.room(b)
	}
	if l.msg == nil {
		if gone, err := q.reread(l); gone || err != nil {
			return nil, err
		}
	}
	why, _ := deathOf(l.why)
	m, err := bury(l.msg, q.key, q.args.DeadLetter, why, time.Now())
	if err != nil {
		return nil, q.lost(l, err)
	}
	r, err := e.routeLetter(m, l.why)
	if errors.Is(err, errCycle) {
		q.give(l, core.DropCycle)
		return nil, nil
	}
	if err != nil {
		return nil, q.lost(l, err)
	}
	a := &apply{engine: e, routes: []*route{r}}
	if err := a.reserveIn(m, r); err != nil {
		a.undo(b)
		return nil, q.lost(l, err)
	}
	return &posting{a, m}, nil
}

// send puts the letter into its targets and takes it off its source as one.
// Without mu.
func (p *posting) send(b *core.Batch, q *queue, l *letter) {
	ops := []core.Op{{Message: p.message}}
	p.engine.deadLettered.Add(1)
	if !p.durable && !l.stored {
		p.commit(b, ops)
		q.letterGone(l)
		return
	}
	p.after = func(err error) { q.letterWritten(l, err) }
	if l.stored {
		p.with = func(batch *store.Batch) { q.shelf.spool.remove(batch, l.seq, l.attempts > 0) }
	}
	q.letterFlies(1)
	p.commitStored(b, ops, nil)
}

// lost: a refused publish is its publisher's to repeat and does not wait here.
func (q *queue) lost(l *letter, err error) error {
	if !l.refused {
		return err
	}
	q.drops.Add(core.DropOverflow, 1)
	return nil
}

// give ends a letter that goes nowhere. It takes mu.
func (q *queue) give(l *letter, why core.DropReason) {
	q.letterGone(l)
	q.drops.Add(why, 1)
}

// letterGone: the letter is not the source's any more. It takes mu.
func (q *queue) letterGone(l *letter) {
	if l.refused {
		return
	}
	q.mu.Lock()
	defer q.unlock()
	q.letters.sent--
	if q.dead {
		return
	}
	q.bytes -= l.size
	if l.stored {
		q.shelf.remove(l.seq, l.attempts > 0)
	}
}

// letterFlies takes mu.
func (q *queue) letterFlies(n int) {
	q.mu.Lock()
	defer q.unlock()
	q.letters.flying += n
	q.letters.sent -= n
}

// letterWritten is told how the batch of a letter ended. It takes mu.
func (q *queue) letterWritten(l *letter, err error) {
	q.mu.Lock()
	defer q.unlock()
	q.letters.flying--
	switch {
	case q.dead || l.refused || errors.Is(err, store.ErrClosed):
	case err == nil:
		q.bytes -= l.size
	default:
		q.engine.deadLettered.Add(^uint64(0))
		if l.stored {
			q.shelf.again(q, &l.entry)
		}
		q.letters.keep([]letter{*l})
		if !q.letters.busy {
			q.letters.busy = true
			q.lettersKept(nil, err)
			q.letters.timer = time.AfterFunc(firstPause, q.deliverLetters)
		}
	}
}

// reread gets the message back from disk; gone: it was purged meanwhile.
func (q *queue) reread(l *letter) (gone bool, err error) {
	msgs, err := q.shelf.spool.load(l.seq, l.seq, 1, 1)
	if err != nil {
		return false, fmt.Errorf("dead letter %d of %v: %w", l.seq, q.key, err)
	}
	if len(msgs) == 0 || msgs[0].stale {
		return true, nil
	}
	l.msg = msgs[0].msg
	return false, nil
}

var errCycle = errors.New("dead letters go round")

// routeLetter is where a dead letter goes: at least one queue, else an error.
func (e *Engine) routeLetter(m *core.Message, why core.DropReason) (*route, error) {
	if m.Exchange == core.TopicExchange && m.Topic.Dollar() {
		return nil, fmt.Errorf("dead-letter key %q: %w: topics that start with $ are the broker's own", m.Topic, core.ErrNotAllowed)
	}
	r, err := e.routeAny(m)
	if err != nil {
		return nil, err
	}
	if len(r.targets) == 0 {
		return nil, fmt.Errorf("dead-letter exchange %q, key %q: no queue: %w", m.Exchange, m.Topic, core.ErrNotFound)
	}
	if reason, _ := deathOf(why); reason == reasonRejected {
		return r, nil
	}
	history := deaths(m)
	var left []*target
	for _, t := range r.targets {
		if !inCycle(history, label(t.queue.key)) {
			left = append(left, t)
		}
	}
	switch len(left) {
	case len(r.targets):
		return r, nil
	case 0:
		return nil, errCycle
	}
	return &route{targets: left, refuses: r.refuses, stamp: r.stamp}, nil
}

// refused: a publish that the queue has no room for; with reject-publish-dlx
// it is a dead letter although its publisher is refused. It takes mu.
func (q *queue) refused(m *core.Message, t *target) {
	if q.args.Overflow != core.RejectPublishDLX || q.args.DeadLetter == nil {
		return
	}
	q.mu.Lock()
	defer q.unlock()
	if !q.dead {
		q.postLetter(letter{entry: entry{msg: m, to: t}, why: core.DropOverflow, refused: true})
	}
}
