package routing

// dict is a map that gives its memory back: Go's maps keep the room of the most they ever held.
type dict[K comparable, V any] struct {
	m    map[K]V
	peak int // the most it held since m was made
}

// minShrink is a size under which room is not worth giving back.
const minShrink = 64

func (d *dict[K, V]) put(k K, v V) {
	if d.m == nil {
		d.m = make(map[K]V)
	}
	d.m[k] = v
	d.peak = max(d.peak, len(d.m))
}

func (d *dict[K, V]) remove(k K) {
	delete(d.m, k)
	switch {
	case len(d.m) == 0:
		d.m, d.peak = nil, 0
	case d.peak > minShrink && len(d.m) < d.peak/4:
		m := make(map[K]V, len(d.m))
		for k, v := range d.m {
			m[k] = v
		}
		d.m, d.peak = m, len(m)
	}
}
