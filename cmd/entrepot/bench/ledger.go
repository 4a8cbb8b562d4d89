package bench

import "slices"

// mostSpans bounds the memory for gaps. Beyond it the oldest gap stays lost,
// and a message of it that comes after all counts as twice.
const mostSpans = 1 << 16

// ledger accounts for the messages of one publisher at one subscriber, by
// their sequence numbers, which begin at 0.
type ledger struct {
	next    uint64 // one more than the highest number so far
	got     uint64 // all that came
	twice   uint64 // came again
	late    uint64 // came after a higher number
	missing []span // numbers below next that have not come, ascending
	closed  uint64 // numbers of gaps that were given up
}

// span is the numbers from, …, to-1.
type span struct{ from, to uint64 }

// take books one message.
func (l *ledger) take(seq uint64) {
	l.got++
	if seq == l.next {
		l.next++
		return
	}
	l.irregular(seq)
}

func (l *ledger) irregular(seq uint64) {
	if seq > l.next {
		l.gap(span{l.next, seq})
		l.next = seq + 1
		return
	}
	i, found := slices.BinarySearchFunc(l.missing, seq, func(s span, seq uint64) int {
		switch {
		case seq < s.from:
			return 1
		case seq >= s.to:
			return -1
		}
		return 0
	})
	if !found {
		l.twice++
		return
	}
	l.late++
	l.mend(i, seq)
}

func (l *ledger) gap(s span) {
	if len(l.missing) == mostSpans {
		l.closed += l.missing[0].to - l.missing[0].from
		l.missing = slices.Delete(l.missing, 0, 1)
	}
	l.missing = append(l.missing, s)
}

// mend takes seq out of the i-th gap.
func (l *ledger) mend(i int, seq uint64) {
	s := l.missing[i]
	switch {
	case s.to-s.from == 1:
		l.missing = slices.Delete(l.missing, i, i+1)
	case seq == s.from:
		l.missing[i].from++
	case seq == s.to-1:
		l.missing[i].to--
	default:
		l.missing[i].to = seq
		l.missing = slices.Insert(l.missing, i+1, span{seq + 1, s.to})
	}
}

// delivered is how many different messages came.
func (l *ledger) delivered() uint64 { return l.got - l.twice }

// lost is how many of the sent messages did not come.
func (l *ledger) lost(sent uint64) uint64 {
	lost := l.closed
	for _, s := range l.missing {
		lost += s.to - s.from
	}
	if sent > l.next {
		lost += sent - l.next
	}
	return lost
}
