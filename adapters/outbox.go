package adapters

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"entrepot/core"
)

const (
	flushAt    = 64 << 10 // bytes that are written without waiting for the batch
	largeBody  = 4 << 10  // payloads from here on are not copied into the buffer
	maxAnswers = 1 << 20  // unsent bytes over OutboxBytes at which reading stops
	hardLimit  = 4 << 20  // unsent bytes over OutboxBytes at which the connection is closed
	flushTurns = 4        // writes that one Flush does before a goroutine takes over
)

// Outbox holds the bytes on their way to one client. Nobody waits for the
// socket: Flush does one non-blocking write, and what the socket does not take
// goes to a goroutine that ends when the outbox is empty.
//
// Two bounds: deliveries are refused at Config.OutboxBytes and stay in their
// queues; protocol answers are always taken, but when too many wait the
// connection is not read any more, and at a hard limit it is closed.
type Outbox struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: every write is the goroutine's (TLS, pipes)
	bufs  *buffers
	limit int
	// room is called, from the outbox's goroutine and with no lock held, when
	// a delivery was refused and there is room again.
	room func(*core.Batch)
	// broken is called once when a write failed or the hard limit was passed.
	broken func(error)

	mu      sync.Mutex
	cur     *buffer // being filled
	chunks  []chunk // before cur: full buffers and large payloads, in order
	unsent  int     // all bytes not yet given to the socket
	dirty   bool    // in a batch
	writing bool    // a Flush or the goroutine has the socket
	refused bool
	err     error
	drained chan struct{} // closed when the reader may go on
	idle    chan struct{} // closed when nothing is being written
	write   func(fd uintptr) bool
	out     []byte // what write sends
	sent    int
	sentErr error
}

// chunk is a run of bytes to write; lent is the buffer that it goes back to,
// nil for a payload, which is the message's.
type chunk struct {
	b    []byte
	lent *buffer
}

func newOutbox(c net.Conn, raw syscall.RawConn, bufs *buffers, limit int) *Outbox {
	o := &Outbox{conn: c, raw: raw, bufs: bufs, limit: limit}
	o.write = o.writeOnce
	return o
}

// BeginDelivery locks the outbox and returns the buffer to append a delivery
// to; End or Cancel must follow. ok is false, and nothing locked, when the
// delivery has to stay in its queue; room is called later.
func (o *Outbox) BeginDelivery() (buf []byte, ok bool) {
	o.mu.Lock()
	if o.unsent >= o.limit || o.err != nil {
		o.refused = true
		o.mu.Unlock()
		return nil, false
	}
	return o.buffer(), true
}

// BeginAnswer locks the outbox and returns the buffer to append a protocol
// answer to; End must follow.
func (o *Outbox) BeginAnswer() []byte {
	o.mu.Lock()
	return o.buffer()
}

func (o *Outbox) buffer() []byte {
	if o.cur == nil {
		o.cur = o.bufs.get()
	}
	return o.cur.b
}

// Cancel unlocks after a Begin without adding anything.
func (o *Outbox) Cancel() { o.mu.Unlock() }

// End takes the buffer back, unlocks, and sees to it that b writes it out.
func (o *Outbox) End(b *core.Batch, buf []byte) {
	o.unsent += len(buf) - len(o.cur.b)
	o.cur.b = buf
	o.added(b)
}

// EndLarge is End for a frame whose payload was not appended: buf ends with
// what precedes it, tail follows it. Payloads under LargeBody are copied. The
// payload must not change afterwards.
func (o *Outbox) EndLarge(b *core.Batch, buf, payload, tail []byte) {
	if len(payload) < largeBody {
		buf = append(append(buf, payload...), tail...)
		o.End(b, buf)
		return
	}
	o.unsent += len(buf) - len(o.cur.b) + len(payload) + len(tail)
	o.cur.b = buf
	o.chunks = append(o.chunks, chunk{buf, o.cur}, chunk{payload, nil})
	o.cur = o.bufs.get()
	o.cur.b = append(o.cur.b, tail...)
	o.added(b)
}

// added unlocks.
func (o *Outbox) added(b *core.Batch) {
	if o.err != nil {
		o.discard()
		o.mu.Unlock()
		return
	}
	fresh := !o.dirty
	o.dirty = true
	unsent := o.unsent
	now := unsent >= flushAt && !o.writing
	o.mu.Unlock()
	if fresh {
		b.Add(o)
	}
	if unsent > o.limit+hardLimit {
		o.fail(os.ErrDeadlineExceeded)
	} else if now {
		o.Flush()
	}
}

// backlogged returns a channel to wait on before reading on, nil when there is
// no need to.
func (o *Outbox) backlogged() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unsent <= o.limit+maxAnswers || o.err != nil {
		return nil
	}
	if o.drained == nil {
		o.drained = make(chan struct{})
	}
	return o.drained
}

// unblock lets a reader go on that waits for room.
func (o *Outbox) unblock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
}

// Unsent is the number of bytes that wait for the socket.
func (o *Outbox) Unsent() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unsent
}

// Flush implements core.Flusher.
func (o *Outbox) Flush() {
	o.mu.Lock()
	o.dirty = false
	if o.writing || o.unsent == 0 || o.err != nil {
		o.mu.Unlock()
		return
	}
	o.writing = true
	if o.raw == nil {
		o.mu.Unlock()
		go o.drain()
		return
	}
	for range flushTurns {
		if !o.writeSome() {
			break
		}
		if o.unsent == 0 && !o.refused {
			o.rest()
			o.mu.Unlock()
			return
		}
	}
	o.mu.Unlock()
	go o.drain()
}

// writeSome gives the socket all that is there without waiting. False: the
// socket is full or broken. With mu held, given up meanwhile.
func (o *Outbox) writeSome() bool {
	for o.unsent > 0 && o.err == nil {
		b := o.next()
		o.mu.Unlock()
		o.out, o.sent, o.sentErr = b, 0, nil
		err := o.raw.Write(o.write)
		n := o.sent
		if err == nil {
			err = o.sentErr
		}
		o.out = nil
		o.mu.Lock()
		o.wrote(b, n)
		if err != nil {
			o.failLocked(err)
			return false
		}
		if n < len(b) {
			return false
		}
	}
	return o.err == nil
}

// writeOnce sends out until the socket takes no more.
func (o *Outbox) writeOnce(fd uintptr) bool {
	for o.sent < len(o.out) {
		n, err := writeNow(fd, o.out[o.sent:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return true
		case err != nil:
			o.sentErr = err
			return true
		}
		o.sent += n
	}
	return true
}

// next is the oldest run of bytes; it stays the outbox's until wrote.
func (o *Outbox) next() []byte {
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, chunk{o.cur.b, o.cur})
		o.cur = nil
	}
	return o.chunks[0].b
}

// wrote takes n bytes of b, the first chunk, off.
func (o *Outbox) wrote(b []byte, n int) {
	if o.err != nil {
		return
	}
	o.unsent -= n
	if n < len(b) {
		o.chunks[0].b = b[n:]
		return
	}
	o.bufs.put(o.chunks[0].lent)
	if len(o.chunks) == 1 {
		o.chunks[0] = chunk{}
		o.chunks = o.chunks[:0]
		return
	}
	o.chunks[0] = chunk{}
	o.chunks = o.chunks[1:]
}

// rest ends writing.
func (o *Outbox) rest() {
	o.writing = false
	if o.cur != nil && len(o.cur.b) == 0 {
		o.bufs.put(o.cur)
		o.cur = nil
	}
	if o.err != nil || cap(o.chunks) > 8 {
		o.chunks = nil
	}
	if o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
	if o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
}

// drain is the goroutine: it waits for the socket, and tells when there is
// room for deliveries, until nothing is left.
func (o *Outbox) drain() {
	b := &core.Batch{}
	o.mu.Lock()
	for o.err == nil {
		if o.unsent > 0 {
			o.writeWaiting()
		}
		if o.drained != nil && o.unsent <= o.limit {
			close(o.drained)
			o.drained = nil
		}
		if o.refused && o.unsent <= o.limit/2 {
			o.refused = false
			room := o.room
			o.mu.Unlock()
			if room != nil {
				room(b)
			}
			b.Flush() // own bytes are this goroutine's; others' go out
			o.mu.Lock()
			continue
		}
		if o.unsent == 0 {
			break
		}
	}
	o.rest()
	o.mu.Unlock()
}

// writeWaiting writes the oldest bytes, waiting for the socket.
func (o *Outbox) writeWaiting() {
	b := o.next()
	o.mu.Unlock()
	n, err := o.conn.Write(b)
	o.mu.Lock()
	o.wrote(b, n)
	if err != nil {
		o.failLocked(err)
	}
}

func (o *Outbox) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(err)
}

// failLocked makes the outbox take nothing more.
func (o *Outbox) failLocked(err error) {
	if o.err != nil {
		return
	}
	o.err = err
	o.discard()
	if o.drained != nil {
		close(o.drained)
		o.drained = nil
	}
	if o.broken != nil {
		go o.broken(err)
	}
}

func (o *Outbox) discard() {
	o.cur, o.unsent = nil, 0
	if !o.writing {
		o.chunks = nil
	}
}

// close sends what is left for at most linger and takes nothing more.
func (o *Outbox) close(linger time.Duration) {
	o.Flush()
	o.mu.Lock()
	var idle chan struct{}
	if o.writing {
		if o.idle == nil {
			o.idle = make(chan struct{})
		}
		idle = o.idle
		// Errors of the deadline show in the write.
		_ = o.conn.SetWriteDeadline(time.Now().Add(linger))
	}
	o.refused, o.room = false, nil
	o.mu.Unlock()
	if idle != nil {
		<-idle
	}
	o.fail(net.ErrClosed)
}
