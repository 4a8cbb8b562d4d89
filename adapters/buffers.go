package adapters

import (
	"sync"
	"sync/atomic"
)

const (
	readSize  = 64 << 10
	writeSize = 32 << 10
	writeKeep = 64 << 10 // what a large frame made larger than this is the collector's
)

// buffer is bytes on loan.
type buffer struct {
	b    []byte
	lent bool
}

// lend and giveBack find out a buffer that two would write to.
func (b *buffer) lend() *buffer {
	b.lent = true
	return b
}

func (b *buffer) giveBack() {
	if !b.lent {
		panic("a buffer was given back twice")
	}
	b.lent = false
}

// buffers lends out byte buffers, so that an idle connection has none. Each is
// given back once, by who has it then.
type buffers struct {
	write sync.Pool
	read  sync.Pool
	lent  *atomic.Int64 // counted in tests, else nil
}

func newBuffers() *buffers {
	return &buffers{
		write: sync.Pool{New: func() any { return &buffer{b: make([]byte, 0, writeSize)} }},
		read:  sync.Pool{New: func() any { return &buffer{b: make([]byte, readSize)} }},
	}
}

// getWrite lends an empty buffer to append to.
func (p *buffers) getWrite() *buffer {
	p.count(1)
	return p.write.Get().(*buffer).lend()
}

func (p *buffers) putWrite(b *buffer) {
	p.count(-1)
	b.giveBack()
	if cap(b.b) > writeKeep {
		return
	}
	b.b = b.b[:0]
	p.write.Put(b)
}

// getRead lends readSize bytes to read into.
func (p *buffers) getRead() *buffer {
	p.count(1)
	return p.read.Get().(*buffer).lend()
}

func (p *buffers) putRead(b *buffer) {
	p.count(-1)
	b.giveBack()
	p.read.Put(b)
}

func (p *buffers) count(n int64) {
	if p.lent != nil {
		p.lent.Add(n)
	}
}
