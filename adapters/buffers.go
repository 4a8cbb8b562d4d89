package adapters

import "sync"

const (
	readSize = 64 << 10
	bufCap   = 16 << 10  // a new outbox buffer
	bufKeep  = 256 << 10 // larger ones are left to the collector
)

// buffer is bytes on loan.
type buffer struct{ b []byte }

// buffers lends out byte buffers, so that an idle connection has none.
type buffers struct {
	write sync.Pool
	read  sync.Pool
}

func newBuffers() *buffers {
	return &buffers{
		write: sync.Pool{New: func() any { return &buffer{make([]byte, 0, bufCap)} }},
		read:  sync.Pool{New: func() any { return &buffer{make([]byte, readSize)} }},
	}
}

func (p *buffers) get() *buffer { return p.write.Get().(*buffer) }

func (p *buffers) put(b *buffer) {
	if b == nil || cap(b.b) > bufKeep {
		return
	}
	b.b = b.b[:0]
	p.write.Put(b)
}
