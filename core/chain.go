package core

import "slices"

// link is an element's place in a chain.
type link[T any] struct{ prev, next *T }

func (l *link[T]) links() *link[T] { return l }

// chain is a list through its elements, which embed a link, so that being in it
// needs no other memory. An element is in one chain at most.
type chain[T any, P interface {
	*T
	links() *link[T]
}] struct{ first *T }

func (c *chain[T, P]) push(e *T) {
	l := P(e).links()
	if l.next = c.first; l.next != nil {
		P(l.next).links().prev = e
	}
	c.first = e
}

// remove takes e out; nothing where it is not in.
func (c *chain[T, P]) remove(e *T) {
	l := P(e).links()
	switch {
	case l.prev != nil:
		P(l.prev).links().next = l.next
	case c.first == e:
		c.first = l.next
	}
	if l.next != nil {
		P(l.next).links().prev = l.prev
	}
	l.prev, l.next = nil, nil
}

func (c *chain[T, P]) oldestFirst() (all []*T) {
	for e := c.first; e != nil; e = P(e).links().next {
		all = append(all, e)
	}
	slices.Reverse(all)
	return all
}
