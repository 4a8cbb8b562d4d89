package adapters

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"entrepot/core"
)

const (
	flushAt    = 64 << 10 // bytes that are written without waiting for the batch
	largeBody  = 4 << 10  // payloads from here on are not copied into a buffer
	spare      = 1 << 10  // less room than this in a buffer: the next one is begun
	maxAnswers = 1 << 20  // bytes of answers beyond Config.OutboxBytes at which reading stops
	hardLimit  = 4 << 20  // the same, at which the connection is ended
)

// ErrNotReading is what a connection ends with whose client makes the broker
// answer and does not read the answers.
var ErrNotReading = errors.New("too many answers not read")

// Outbox holds the bytes on their way to one client. Nobody waits for the
// socket: Flush writes what the socket takes at once, the rest goes to a
// goroutine that ends when the outbox is empty. Methods may be called from any
// goroutine; bytes leave in the order of the Begins.
//
// Two bounds. Deliveries are refused while Config.OutboxBytes wait, and stay in
// their queues; one that is larger is taken whole when there is room for its
// first byte. Protocol answers are always taken; 1 MiB of them beyond that
// bound makes the connection's reader stop, one more after 4 MiB ends the
// connection.
type Outbox struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: every write is the goroutine's (TLS, pipes)
	bufs  *buffers
	limit int
	// broken is called once, with no lock held, when a write failed or the
	// client does not read its answers.
	broken func(error)
	// crowded: reading has to stop, see roomForAnswers.
	crowded atomic.Bool

	mu      sync.Mutex
	room    func(*core.Batch)
	cur     *buffer // being filled; cur.b[cut:] is in no chunk yet
	cut     int
	kept    int     // payload bytes that AppendLarge took since the Begin
	chunks  []chunk // before cur
	unsent  int     // all bytes not yet given to the socket
	answers int     // bytes of answers taken since unsent was last within limit
	answer  bool    // what the Begin was for
	dirty   bool    // in a batch
	writing bool    // a Flush or the goroutine has the socket, and out
	refused bool    // a delivery, since room was last called
	closing bool    // takes nothing more
	err     error   // takes nothing more and sends nothing more
	broke   error   // err, while broken is still to be called
	drained chan struct{}
	idle    chan struct{} // closed when writing ends

	outgoing
}

// chunk is a run of bytes to write. With the last run of a buffer, lent is the
// buffer to give back; a payload is its message's and only forgotten.
type chunk struct {
	b    []byte
	lent *buffer
}

func newOutbox(c net.Conn, raw syscall.RawConn, bufs *buffers, limit int) *Outbox {
	o := &Outbox{conn: c, raw: raw, bufs: bufs, limit: limit}
	o.push, o.pushWaiting = o.send, o.sendWaiting
	return o
}

// BeginDelivery locks the outbox and returns the buffer to append a delivery
// to; End, EndLarge or Cancel must follow, and nothing that blocks come between.
// ok is false, and nothing locked, when the delivery has to stay in its queue:
// what Conn.OnRoom names is called when there is room.
func (o *Outbox) BeginDelivery() (buf []byte, ok bool) {
	o.mu.Lock()
	if full := o.unsent >= o.limit; full || o.deaf() {
		o.refused = full && !o.deaf() // a closed outbox never has room again
		o.mu.Unlock()
		return nil, false
	}
	o.answer = false
	return o.space(), true
}

// BeginAnswer locks the outbox and returns the buffer to append a protocol
// answer to; End, EndLarge or Cancel must follow, and nothing that blocks come
// between. On a closed outbox the answer is lost.
func (o *Outbox) BeginAnswer() []byte {
	o.mu.Lock()
	o.answer = true
	return o.space()
}

func (o *Outbox) deaf() bool { return o.err != nil || o.closing }

// space is the buffer to append to, with at least spare bytes free. With mu held.
func (o *Outbox) space() []byte {
	if o.cur != nil && cap(o.cur.b)-len(o.cur.b) < spare {
		o.seal()
	}
	if o.cur == nil {
		o.cur = o.bufs.getWrite()
	}
	return o.cur.b
}

// seal makes the buffer that was filled a chunk. With mu held.
func (o *Outbox) seal() {
	if o.cur == nil {
		return
	}
	o.chunks = append(o.chunks, chunk{o.cur.b[o.cut:], o.cur})
	o.cur, o.cut = nil, 0
}

// Cancel unlocks after a Begin; nothing is added.
func (o *Outbox) Cancel() {
	o.dropEmpty()
	o.mu.Unlock()
}

// dropEmpty gives back a buffer that nothing was appended to. With mu held.
func (o *Outbox) dropEmpty() {
	if o.cur != nil && len(o.cur.b) == 0 {
		o.bufs.putWrite(o.cur)
		o.cur = nil
	}
}

// End takes the buffer back, with what was appended, unlocks, and sees to it
// that b writes it out; with a nil b it is written now.
func (o *Outbox) End(b *core.Batch, buf []byte) {
	if o.deaf() {
		o.Cancel()
		return
	}
	n := len(buf) - len(o.cur.b) + o.kept
	o.cur.b, o.kept = buf, 0
	o.added(b, n)
}

// EndLarge is End for a frame whose payload was not appended: buf ends with
// what precedes it, tail follows it. Payloads of 4 KiB and more are not copied
// but kept until they are sent; they must not change any more.
func (o *Outbox) EndLarge(b *core.Batch, buf, payload, tail []byte) {
	o.End(b, append(o.AppendLarge(buf, payload), tail...))
}

// AppendLarge appends a payload, or a part of one, to the buffer of a Begin;
// more may be appended, and End must follow, not Cancel. Those of 4 KiB and
// more are not copied but kept until they are sent; they must not change any
// more.
func (o *Outbox) AppendLarge(buf, payload []byte) []byte {
	if len(payload) < largeBody {
		return append(buf, payload...)
	}
	if o.deaf() {
		return buf
	}
	o.chunks = append(o.chunks, chunk{buf[o.cut:], nil}, chunk{payload, nil})
	o.cut = len(buf)
	o.kept += len(payload)
	return buf
}

// added counts n new bytes and unlocks.
func (o *Outbox) added(b *core.Batch, n int) {
	if n == 0 {
		o.Cancel()
		return
	}
	o.unsent += n
	if o.answer && o.unsent > o.limit {
		o.answers += n
		o.crowded.Store(o.answers > maxAnswers)
		if o.answers-n > hardLimit { // one that is larger is taken whole
			o.fail(ErrNotReading)
			o.unlockTelling()
			return
		}
	}
	if b == nil || o.unsent >= flushAt && !o.writing {
		o.flushAndUnlock()
		return
	}
	fresh := !o.dirty
	o.dirty = true
	o.mu.Unlock()
	if fresh {
		b.Add(o)
	}
}

// roomForAnswers returns what to wait for before reading on, nil when there is
// no need to.
func (o *Outbox) roomForAnswers() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.crowded.Load() {
		return nil
	}
	return o.unblocked()
}

// nextUnblock is closed by the next unblock.
func (o *Outbox) nextUnblock() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unblocked()
}

// unblocked is closed by letRead. With mu held.
func (o *Outbox) unblocked() <-chan struct{} {
	if o.drained == nil {
		o.drained = make(chan struct{})
	}
	return o.drained
}

// unblock lets a reader go on that waits for room.
func (o *Outbox) unblock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.letRead()
}

func (o *Outbox) letRead() {
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

// onRoom sets what is called when there is room again.
func (o *Outbox) onRoom(f func(*core.Batch)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = f
}

// unlockTelling calls broken if that is due.
func (o *Outbox) unlockTelling() {
	err := o.broke
	o.broke = nil
	o.mu.Unlock()
	if err != nil && o.broken != nil {
		o.broken(err)
	}
}

// fail makes the outbox take and send nothing more. With mu held.
func (o *Outbox) fail(err error) {
	if o.err != nil {
		return
	}
	o.err = err
	if !o.closing {
		o.broke = err
	}
	o.discard()
	o.unsent, o.answers = 0, 0
	o.crowded.Store(false)
	o.letRead()
}

// discard drops what no writer has. With mu held.
func (o *Outbox) discard() {
	o.seal()
	o.giveBack(o.chunks)
	o.chunks = nil
}

func (o *Outbox) giveBack(chunks []chunk) {
	for i := range chunks {
		if chunks[i].lent != nil {
			o.bufs.putWrite(chunks[i].lent)
		}
		chunks[i] = chunk{}
	}
}

// close sends what is left, for at most linger when the client reads slowly,
// and takes nothing more. No write is under way when it returns; false means
// that bytes were lost. Called once.
func (o *Outbox) close(linger time.Duration) bool {
	o.mu.Lock()
	o.closing, o.refused = true, false
	o.flushAndUnlock()
	if idle, patience := o.stillWriting(linger); idle != nil {
		// An error of it shows in the write.
		_ = o.conn.SetWriteDeadline(time.Now().Add(patience))
		<-idle
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	sound := o.err == nil
	o.fail(net.ErrClosed)
	return sound
}

// stillWriting returns what to wait for and how long it may take.
func (o *Outbox) stillWriting(linger time.Duration) (<-chan struct{}, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.writing {
		return nil, 0
	}
	if o.err != nil {
		linger = 0
	}
	o.idle = make(chan struct{})
	return o.idle, linger
}
