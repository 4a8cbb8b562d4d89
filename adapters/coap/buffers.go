package coap

import "sync"

// buffer is bytes on loan, to write a message into.
type buffer struct{ b []byte }

// buffers lends them out.
type buffers struct{ pool sync.Pool }

// get lends an empty one.
func (p *buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 2048)}
}

func (p *buffers) put(b *buffer) {
	if cap(b.b) > 64<<10 {
		return
	}
	b.b = b.b[:0]
	p.pool.Put(b)
}
