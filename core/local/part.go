package local

// part is what of a queue, or of a level of it, is on disk only.
type part struct {
	n     int
	bytes int64
	next  uint64 // none of them is before this number
}

// shelve counts one more that is on disk only.
func (q *queue) shelve(seq uint64, size int64) {
	s := q.shelf
	s.n++
	s.bytes += size
	if v := q.ready.levels; v != nil {
		p := &v.parts[v.level(seq)]
		if p.n == 0 {
			p.next = number(seq)
		}
		p.n++
		p.bytes += size
	}
}

// unshelve counts one less.
func (q *queue) unshelve(seq uint64, size int64) {
	s := q.shelf
	s.n--
	s.bytes -= size
	if v := q.ready.levels; v != nil {
		p := &v.parts[v.level(seq)]
		p.n--
		p.bytes -= size
	}
}

// toRead is the part of the disk whose oldest comes next, with the level in
// its seqs; nil when what comes next is in memory.
func (q *queue) toRead() (*part, uint64) {
	switch s := q.shelf; {
	case s == nil || s.n == 0 || s.fault != nil:
		return nil, 0
	case q.ready.levels != nil:
		return q.rankedToRead()
	case q.ready.len() > 0:
		return nil, 0
	default:
		return &s.part, 0
	}
}

// partOf is the part of the disk that a seq belongs to.
func (q *queue) partOf(seq uint64) *part {
	if v := q.ready.levels; v != nil {
		return &v.parts[v.level(seq)]
	}
	return &q.shelf.part
}

// phantoms: what is counted as on disk only was lost by a disk that failed.
func (q *queue) phantoms(p *part) {
	n, bytes := p.n, p.bytes
	q.bytes -= bytes
	q.waitBytes -= bytes
	p.n, p.bytes = 0, 0
	if p != &q.shelf.part {
		q.shelf.n -= n
		q.shelf.bytes -= bytes
	}
}

// clearDisk removes what is on disk only.
func (q *queue) clearDisk() {
	s, v := q.shelf, q.ready.levels
	if v == nil {
		s.spool.clearFrom(&s.settled, s.next)
		return
	}
	for i := range v.parts {
		p := &v.parts[i]
		if p.n > 0 || s.fault != nil {
			s.spool.clearLevel(&s.settled, v.first(i)|p.next)
		}
		*p = part{next: p.next}
	}
}
