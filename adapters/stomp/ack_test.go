package stomp

import (
	"slices"
	"testing"
)

// FuzzHeld: the list of deliveries that wait for their ACK against a plain map.
func FuzzHeld(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x41, 0x82, 0xC1})
	f.Fuzz(func(t *testing.T, acts []byte) {
		var h held
		model := map[uint64]heldState{}
		var next uint64
		for _, act := range acts {
			number := next - min(next, uint64(act&0x3F))
			switch act >> 6 {
			case 0:
				next++
				h.list = append(h.list, heldMessage{number: next, seq: next, size: 1})
				h.count++
				h.bytes++
				model[next] = isOut
			case 3: // a transaction takes it, or gives it back
				if i, ok := h.at(number); ok && h.list[i].state != isSettled {
					h.list[i].state ^= isTaken
					model[number] = h.list[i].state
				}
			default:
				cumulative := act>>6 == 2
				got, ok := h.take(nil, number, cumulative)
				var want []uint64
				state, known := model[number]
				if known && state == isOut {
					for n, s := range model {
						if s == isOut && (n == number || cumulative && n < number) {
							want = append(want, n)
							delete(model, n)
						}
					}
				}
				slices.Sort(want)
				if ok != (want != nil) || !slices.Equal(got, want) {
					t.Fatalf("ACK of %d: %v %v, not %v", number, got, ok, want)
				}
			}
			if h.count != len(model) || h.bytes != len(model) {
				t.Fatalf("count %d, bytes %d, not %d", h.count, h.bytes, len(model))
			}
			if len(h.list) > 2*h.count+33 {
				t.Fatalf("%d places for %d", len(h.list), h.count)
			}
		}
	})
}
