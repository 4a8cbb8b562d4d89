package routing

import (
	"maps"
	"runtime"
	"slices"
	"testing"
)

func TestDictShrinks(t *testing.T) {
	var d dict[int, int]
	for i := range 10000 {
		d.put(i, i)
	}
	for i := range 9990 {
		d.remove(i)
	}
	if d.peak > 4*minShrink || len(d.m) != 10 {
		t.Errorf("room for %d, holds %d", d.peak, len(d.m))
	}
	keys := slices.Sorted(maps.Keys(d.m))
	if keys[0] != 9990 || keys[9] != 9999 {
		t.Errorf("holds %v", keys)
	}
	for _, k := range keys {
		d.remove(k)
	}
	if d.m != nil || d.peak != 0 {
		t.Error("an empty dict holds room")
	}
}

// What a dict held at most is not what it holds on to.
func TestDictMemory(t *testing.T) {
	const n = 200_000
	before := int64(heap())
	var d dict[int, [4]int]
	for i := range n {
		d.put(i, [4]int{})
	}
	full := int64(heap()) - before
	for i := range n - 100 {
		d.remove(i)
	}
	if left := int64(heap()) - before; left > full/50 || len(d.m) != 100 {
		t.Errorf("%d of %d bytes are held for %d entries", left, full, len(d.m))
	}
	runtime.KeepAlive(&d)
}

// A bag is a set, below and above the size at which it gets an index.
func TestBag(t *testing.T) {
	seeded(t, 2000, 300, func(t *testing.T, d *dice) {
		var b bag[int]
		set := map[int]bool{}
		grow := 2 + d.roll(3) // sizes drift up, then down
		for !d.done() {
			v := d.roll(60)
			if d.roll(5) < grow {
				if b.add(v) == set[v] {
					t.Errorf("add %d", v)
				}
				set[v] = true
			} else {
				if b.remove(v) != set[v] {
					t.Errorf("remove %d", v)
				}
				delete(set, v)
			}
			if len(b.list) != len(set) {
				t.Errorf("%d values, want %d", len(b.list), len(set))
			}
			for v := range 60 {
				if i := b.find(v); (i >= 0) != set[v] || i >= 0 && b.list[i] != v {
					t.Errorf("%d is at %d", v, i)
				}
			}
			if b.at.m != nil && len(b.at.m) != len(b.list) {
				t.Errorf("index of %d for %d values", len(b.at.m), len(b.list))
			}
		}
	})
}

func TestBagGivesRoomBack(t *testing.T) {
	var b bag[*int]
	list := make([]*int, 10000)
	for i := range list {
		list[i] = new(int)
		b.add(list[i])
	}
	for _, v := range list[10:] {
		b.remove(v)
	}
	if cap(b.list) > 4*minShrink || b.at.peak > 4*minShrink || len(b.list) != 10 {
		t.Errorf("room for %d and %d, holds %d", cap(b.list), b.at.peak, len(b.list))
	}
	for _, v := range b.list[len(b.list):cap(b.list)] {
		if v != nil {
			t.Error("a removed value is held")
		}
	}
}

func TestValues(t *testing.T) {
	s := values[string]{one: "a"}
	all := func() (list []string) {
		s.each(func(v string) { list = append(list, v) })
		slices.Sort(list)
		return list
	}
	if s.add("a") || !s.add("b") || s.add("b") || s.one != "" || !slices.Equal(all(), []string{"a", "b"}) {
		t.Errorf("%v", all())
	}
	for _, c := range []struct {
		v          string
		had, empty bool
		left       int
	}{
		{"c", false, false, 2},
		{"a", true, false, 1},
		{"a", false, false, 1},
		{"b", true, true, 1}, // the owner of an empty set throws it away
	} {
		if had, empty := s.remove(c.v); had != c.had || empty != c.empty || len(all()) != c.left {
			t.Errorf("remove %s: %v, %v, left %v", c.v, had, empty, all())
		}
	}
	if s.many != nil || s.one != "b" {
		t.Errorf("a set of one: %+v", s)
	}
}
