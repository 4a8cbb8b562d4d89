package mqtt

import (
	"math/rand/v2"
	"testing"
)

// [MQTT-2.2.1-4] identifiers are unused ones, not 0, found again until they are
// dropped; checked against a map.
func TestFlight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		var f flight
		f.last = uint16(rnd.Uint32())
		model := map[uint16]uint64{}
		var ids []uint16
		most := 1 << (round % 12)
		for step := range uint64(5000) {
			if len(ids) < most && rnd.IntN(5) < 3 {
				p := f.add()
				if p == nil || p.id == 0 {
					t.Fatalf("no identifier with %d in use", len(ids))
				}
				if _, used := model[p.id]; used {
					t.Fatalf("identifier %d is in use", p.id)
				}
				p.stage, p.seq = sent1, step
				model[p.id] = step
				ids = append(ids, p.id)
			} else if len(ids) > 0 {
				i := rnd.IntN(len(ids))
				id := ids[i]
				p := f.find(id)
				if p == nil || p.seq != model[id] {
					t.Fatalf("identifier %d is lost", id)
				}
				f.drop(p)
				if f.find(id) != nil {
					t.Fatalf("identifier %d is still there", id)
				}
				delete(model, id)
				ids[i] = ids[len(ids)-1]
				ids = ids[:len(ids)-1]
			}
			if f.count != len(model) {
				t.Fatalf("count %d, want %d", f.count, len(model))
			}
		}
		for id, seq := range model {
			if p := f.find(id); p == nil || p.seq != seq {
				t.Fatalf("identifier %d is lost", id)
			}
		}
	}
}

// All 65,535 identifiers can be out at once, and not one more.
func TestFlightIsFinite(t *testing.T) {
	var f flight
	seen := map[uint16]bool{}
	for range 65535 {
		p := f.add()
		if p == nil || seen[p.id] {
			t.Fatalf("after %d identifiers", len(seen))
		}
		p.stage = sent2
		seen[p.id] = true
	}
	if f.add() != nil {
		t.Fatal("one more than there are")
	}
	f.drop(f.find(1000))
	if p := f.add(); p == nil || p.id != 1000 {
		t.Fatal("a free identifier was not found")
	}
}
