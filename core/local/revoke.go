package local

// revoke takes back a message in memory that the disk refused: its publisher is
// told so, and may send it again. What a consumer has of it does not come back.
// It takes mu.
func (q *queue) revoke(seq uint64) {
	q.mu.Lock()
	defer q.unlock()
	if q.dead {
		return
	}
	s := q.shelf
	s.remove(seq, false)
	found := false
	take := func(e *entry) bool {
		if e.seq != seq {
			return true
		}
		found = true
		q.waitBytes -= e.size()
		q.bytes -= e.size()
		return false
	}
	if q.ready.keep(take); !found {
		q.back.keep(take)
	}
	if !found {
		q.aside.keep(take)
	}
	if !found { // it is out, or was
		if s.revoked == nil {
			s.revoked = map[uint64]bool{}
		}
		s.revoked[seq] = true
	}
}

// keepRevoked forgets the revoked that are out no more: the store works again,
// so all that it refused came back.
func (q *queue) keepRevoked() {
	s := q.shelf
	if len(s.revoked) == 0 {
		return
	}
	out := map[uint64]bool{}
	keep := func(seq uint64) {
		if s.revoked[seq] {
			out[seq] = true
		}
	}
	for _, c := range q.consumers {
		c.held.all(func(e entry) { keep(e.seq) })
	}
	if q.busy != nil {
		keep(q.out)
	}
	s.revoked = out
}

// wasRevoked tells, once, whether a message was revoked while it was out.
func (s *shelf) wasRevoked(seq uint64) bool {
	if s == nil || !s.revoked[seq] {
		return false
	}
	delete(s.revoked, seq)
	return true
}
