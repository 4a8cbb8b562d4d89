package core

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"entrepot/routing"
)

// Values that come and go in any order: the ages are those that are there, in
// the order in which they came.
func TestRetainedAges(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	var a retainedAges
	var there []*retainedValue
	version := uint64(0)
	for step := range 40_000 {
		if grows := step/8000%2 == 0; len(there) == 0 || dice.IntN(5) < 2 == !grows {
			version += 1 + dice.Uint64N(3)
			v := &retainedValue{version: version}
			there = append(there, v)
			a.add(v)
		} else {
			i := dice.IntN(len(there))
			a.remove(there[i])
			there = slices.Delete(there, i, i+1)
		}
		if step%100 != 0 {
			continue
		}
		first, last := dice.Uint64N(version+2), dice.Uint64N(version+2)
		var got, want []uint64
		a.each(first, last, func(v *retainedValue) bool { got = append(got, v.version); return true })
		for _, v := range there {
			if v.version >= first && v.version <= last {
				want = append(want, v.version)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d, from %d to %d: %v, want %v", step, first, last, got, want)
		}
		if runs := 2*len(there)/(runLength/2) + 2; len(a.runs) > runs {
			t.Fatalf("step %d: %d runs for %d values", step, len(a.runs), len(there))
		}
	}
}

func storeOf(t testing.TB, n int) *retainedStore {
	t.Helper()
	r := newRetainedStore(n+1000, 1<<40)
	for i := range n {
		keep(t, r, i, "first")
	}
	return r
}

func keep(t testing.TB, r *retainedStore, i int, payload string) {
	t.Helper()
	topic, err := routing.ParseTopic(fmt.Sprintf("plant/%d/%d", i%100, i))
	if err == nil {
		err = r.set(&Message{Topic: topic, Payload: []byte(payload)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Subscribers who do not read keep no lists of what they are to get (fault 34).
func TestReplayKeepsNoList(t *testing.T) {
	const topics, subscribers = 50_000, 50
	r := storeOf(t, topics)
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, text := range []string{"#", "plant/#", "+/+/+", "plant/7/+"} {
		f, err := routing.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		before := used()
		var waiting []Source
		for range subscribers {
			src, found := r.source(f, r.mark())
			if want := map[bool]int{true: topics / 100, false: topics}[text == "plant/7/+"]; found != want {
				t.Fatalf("%s found %d, want %d", text, found, want)
			}
			waiting = append(waiting, src)
		}
		if each := (used() - before) / subscribers; each > topics {
			t.Errorf("%s: %d bytes for each subscriber", text, each)
		}
		runtime.KeepAlive(waiting)
	}
}

// What is replaced, cleared or new after a subscription is not in its replay;
// all else comes once.
func TestReplayByAge(t *testing.T) {
	const topics = 5000
	for _, text := range []string{"#", "plant/+/#", "plant/7/#"} {
		r := storeOf(t, topics)
		f, err := routing.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		next, _ := r.source(f, r.mark())
		got := map[string]int{}
		take := func(n int) {
			for range n {
				m, ok := next()
				if !ok {
					return
				}
				got[m.Topic.String()]++
				if string(m.Payload) != "first" {
					t.Errorf("%s: %s has %s", text, m.Topic, m.Payload)
				}
			}
		}
		take(10)
		already := len(got)
		for i := range topics { // a third is replaced, a third cleared
			switch i / 100 % 3 {
			case 0:
				keep(t, r, i, "second")
			case 1:
				keep(t, r, i, "")
			}
			keep(t, r, topics+i%500, "new")
		}
		take(topics)
		left := 0
		for i := range topics {
			topic := fmt.Sprintf("plant/%d/%d", i%100, i)
			if v, _ := routing.ParseTopic(topic); !f.Match(v) {
				continue
			}
			if i/100%3 == 2 {
				left++
				if got[topic] != 1 {
					t.Errorf("%s: %s came %d times", text, topic, got[topic])
				}
			}
		}
		if len(got) > left+already {
			t.Errorf("%s: %d came, %d were left", text, len(got), left)
		}
	}
}

func BenchmarkRetainedSet(b *testing.B) {
	r := storeOf(b, 200_000)
	var ms []*Message
	for i := range 200_000 {
		topic, _ := routing.ParseTopic(fmt.Sprintf("plant/%d/%d", i%100, i))
		ms = append(ms, &Message{Topic: topic, Payload: []byte("x")})
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(ms), func(i, k int) { ms[i], ms[k] = ms[k], ms[i] })
	b.ResetTimer()
	for i := range b.N {
		if err := r.set(ms[i%len(ms)]); err != nil {
			b.Fatal(err)
		}
	}
}

// A million values, replayed: the time and the memory of each.
func BenchmarkReplay(b *testing.B) {
	r := storeOf(b, 1_000_000)
	for _, text := range []string{"#", "plant/7/+", "plant/+/777"} {
		f, _ := routing.ParseFilter(text)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				next, found := r.source(f, r.mark())
				n := 0
				for _, ok := next(); ok; _, ok = next() {
					n++
				}
				if n != found {
					b.Fatalf("%d of %d", n, found)
				}
			}
		})
	}
}
