package adapters

import (
	"os"
	"syscall"

	"entrepot/core"
)

const (
	flushTurns = 4  // writes of one Flush before the goroutine takes over
	maxRuns    = 32 // chunks of one write
	keepChunks = 8  // a longer list is not kept by an idle outbox
)

// outgoing is what an outbox's writer works on: whoever has set writing.
type outgoing struct {
	out     []chunk // out[next:] is to be sent
	next    int
	sent    int // by the last push
	sendErr error
	secure  *secure // TLS; nil: none
	sealed  int     // bytes from next on that were encrypted and are not all sent

	push, pushWaiting func(fd uintptr) bool // kept, so that a write makes no closure
}

// Flush implements core.Flusher. It never waits.
func (o *Outbox) Flush() {
	o.mu.Lock()
	o.dirty = false
	o.flushAndUnlock()
}

// flushAndUnlock writes what the socket takes at once. Who comes while another
// writes leaves it to that one, who looks again before it rests.
func (o *Outbox) flushAndUnlock() {
	switch {
	case o.writing || o.unsent == 0 || o.err != nil:
		o.mu.Unlock()
		return
	case o.raw != nil && o.writeSome():
		o.restAndUnlock()
		return
	}
	o.writing = true
	o.mu.Unlock()
	go o.drain()
}

// writeSome writes without waiting; true means that the writer is done. With
// mu held, given up meanwhile.
func (o *Outbox) writeSome() bool {
	o.writing = true
	for range flushTurns {
		offered := o.take()
		o.mu.Unlock()
		err := o.raw.Write(o.push)
		o.mu.Lock()
		sent := o.wrote(err)
		if o.finished() {
			return true
		}
		if sent < offered || o.refused {
			return false
		}
	}
	return false
}

func (o *Outbox) finished() bool { return o.err != nil || o.unsent == 0 && !o.refused }

// drain is the goroutine: it waits for the socket, and tells when there is room
// for deliveries, until nothing is left.
func (o *Outbox) drain() {
	var b core.Batch
	o.mu.Lock()
	for !o.finished() {
		if o.refused && o.unsent <= o.limit/2 {
			o.callRoom(&b)
			continue
		}
		o.take()
		o.mu.Unlock()
		err := o.writeWaiting()
		o.mu.Lock()
		o.wrote(err)
	}
	o.restAndUnlock()
}

// callRoom gives mu up meanwhile. What comes into this outbox is for the
// caller to write; other outboxes are flushed here.
func (o *Outbox) callRoom(b *core.Batch) {
	o.refused = false
	room := o.room
	o.mu.Unlock()
	if room != nil {
		room(b)
		b.Flush()
	}
	o.mu.Lock()
}

// take moves all that waits to out and returns its length. With mu held, by
// the writer.
func (o *Outbox) take() int {
	o.seal()
	if len(o.out) == 0 {
		o.out, o.chunks = o.chunks, o.out
		return o.unsent
	}
	rest := copy(o.out, o.out[o.next:])
	clear(o.out[rest:])
	o.out, o.next = append(o.out[:rest], o.chunks...), 0
	clear(o.chunks)
	o.chunks = o.chunks[:0]
	return o.unsent
}

// wrote counts what the last push sent. With mu held, by the writer.
func (o *Outbox) wrote(err error) int {
	n := o.sent
	if err == nil {
		err = o.sendErr
	}
	o.sent, o.sendErr = 0, nil
	if o.err == nil {
		o.unsent -= n
	}
	if err != nil {
		o.fail(err)
	}
	if o.err != nil {
		o.giveBack(o.out[o.next:])
		o.out, o.next = nil, 0
		return n
	}
	if o.unsent <= o.limit && o.answers > 0 {
		o.answers = 0
		o.crowded.Store(false)
		o.letRead()
	}
	return n
}

// restAndUnlock ends writing.
func (o *Outbox) restAndUnlock() {
	o.writing = false
	if cap(o.out) > keepChunks {
		o.out = nil
	}
	if cap(o.chunks) > keepChunks && len(o.chunks) == 0 {
		o.chunks = nil
	}
	if o.idle != nil {
		close(o.idle)
		o.idle = nil
	}
	o.unlockTelling()
}

// send writes out until all is written or the socket takes no more.
func (o *Outbox) send(fd uintptr) bool {
	for o.next < len(o.out) && o.sendOnce(fd) {
	}
	return true
}

// sendWaiting writes a part of out; false: wait for the socket.
func (o *Outbox) sendWaiting(fd uintptr) bool {
	return o.sendOnce(fd) || o.sendErr != nil
}

// sendOnce is false when the socket is full or broken.
func (o *Outbox) sendOnce(fd uintptr) bool {
	if o.secure != nil {
		return o.sendSealed(fd)
	}
	n, err := 0, error(nil)
	if runs := o.out[o.next:]; len(runs) == 1 {
		n, err = writeNow(fd, runs[0].b)
	} else {
		n, err = writeRunsNow(fd, runs)
	}
	switch err {
	case nil:
		o.advance(n)
		return true
	case syscall.EINTR:
		return true
	case syscall.EAGAIN:
		return false
	}
	o.sendErr = os.NewSyscallError("write", err)
	return false
}

// sendSealed is sendOnce over TLS. Bytes count as sent when the socket has all that
// they were encrypted with.
func (o *Outbox) sendSealed(fd uintptr) bool {
	if o.advance(0); o.next == len(o.out) {
		return true
	}
	if o.sealed == 0 {
		if o.sealed, o.sendErr = o.secure.seal(o.out[o.next:]); o.sendErr != nil {
			return false
		}
	}
	done, err := o.secure.wire.flush(fd)
	if err != nil {
		o.sendErr = os.NewSyscallError("write", err)
	}
	if !done {
		return false
	}
	n := o.sealed
	o.sealed = 0
	o.advance(n)
	return true
}

// writeWaiting writes a part of out, waiting for the socket.
func (o *Outbox) writeWaiting() error {
	if o.raw != nil {
		return o.raw.Write(o.pushWaiting)
	}
	o.advance(0) // an empty write would be a message to some carriers
	if o.next == len(o.out) {
		return nil
	}
	var n int
	var err error
	if ws, ok := o.conn.(*websocketConn); ok {
		n, err = ws.writeRuns(o.out[o.next:])
	} else {
		n, err = o.conn.Write(o.out[o.next].b)
	}
	o.advance(n)
	return err
}

// advance takes n sent bytes off out and gives back the buffers that they were in.
func (o *Outbox) advance(n int) {
	o.sent += n
	for ; o.next < len(o.out); o.next++ {
		c := &o.out[o.next]
		if n < len(c.b) {
			c.b = c.b[n:]
			return
		}
		n -= len(c.b)
		if c.lent != nil {
			o.bufs.putWrite(c.lent)
		}
		*c = chunk{}
	}
	o.out, o.next = o.out[:0], 0
}
