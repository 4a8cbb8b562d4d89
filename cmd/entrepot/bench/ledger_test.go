package bench

import (
	"math/rand/v2"
	"testing"
)

func TestLedger(t *testing.T) {
	tests := []struct {
		name              string
		sent              uint64
		came              []uint64
		lost, twice, late uint64
	}{
		{"all in order", 4, []uint64{0, 1, 2, 3}, 0, 0, 0},
		{"nothing came", 4, nil, 4, 0, 0},
		{"the last are lost", 5, []uint64{0, 1, 2}, 2, 0, 0},
		{"the first are lost", 4, []uint64{2, 3}, 2, 0, 0},
		{"a gap", 6, []uint64{0, 1, 4, 5}, 2, 0, 0},
		{"again at once", 2, []uint64{0, 0, 1}, 0, 1, 0},
		{"again later", 3, []uint64{0, 1, 2, 0, 1}, 0, 2, 0},
		{"two changed places", 4, []uint64{0, 2, 1, 3}, 0, 0, 1},
		{"a late one fills the middle of a gap", 7, []uint64{0, 6, 3}, 4, 0, 1},
		{"late ones fill a gap from its ends", 6, []uint64{0, 5, 1, 4, 2, 3}, 0, 0, 4},
		{"a late one comes again", 4, []uint64{0, 2, 1, 1}, 1, 1, 1},
		{"backwards", 4, []uint64{3, 2, 1, 0}, 0, 0, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l ledger
			for _, seq := range tt.came {
				l.take(seq)
			}
			if l.lost(tt.sent) != tt.lost || l.twice != tt.twice || l.late != tt.late {
				t.Errorf("lost %d, twice %d, late %d; want %d, %d, %d", l.lost(tt.sent), l.twice, l.late, tt.lost, tt.twice, tt.late)
			}
			if l.delivered()+l.lost(tt.sent) != tt.sent {
				t.Errorf("delivered %d and lost %d are not the %d sent", l.delivered(), l.lost(tt.sent), tt.sent)
			}
		})
	}
}

// The ledger agrees with a set of all numbers.
func TestLedgerAgainstSet(t *testing.T) {
	for round := range 200 {
		random := rand.New(rand.NewPCG(uint64(round), 1))
		const sent = 300
		var l ledger
		seen := map[uint64]bool{}
		var twice, late, next uint64
		for range random.IntN(600) {
			seq := min(sent-1, next+uint64(random.IntN(4)))
			if random.IntN(3) == 0 {
				seq = random.Uint64N(sent)
			}
			l.take(seq)
			switch {
			case seen[seq]:
				twice++
			case seq < next:
				late++
			}
			seen[seq] = true
			next = max(next, seq+1)
		}
		if l.twice != twice || l.late != late || l.lost(sent) != sent-uint64(len(seen)) || l.next != next {
			t.Fatalf("round %d: twice %d, late %d, lost %d; want %d, %d, %d", round, l.twice, l.late, l.lost(sent), twice, late, sent-len(seen))
		}
	}
}

func TestLedgerBoundsItsGaps(t *testing.T) {
	var l ledger
	const gaps = mostSpans + 10
	for i := range uint64(gaps) {
		l.take(2*i + 1)
	}
	if len(l.missing) > mostSpans {
		t.Errorf("%d gaps are kept", len(l.missing))
	}
	if got := l.lost(2 * gaps); got != gaps {
		t.Errorf("lost %d, want %d", got, gaps)
	}
	l.take(0)
	if l.twice != 1 {
		t.Errorf("a message of a gap that was given up counts as twice; got %d", l.twice)
	}
}
