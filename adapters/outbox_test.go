package adapters

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
)

// box is an outbox with the client's end of its connection.
type box struct {
	*Outbox
	client net.Conn
	broke  atomic.Int32
	why    atomic.Pointer[error]
}

func newBox(t testing.TB, pair func(testing.TB) (net.Conn, net.Conn), limit int) *box {
	client, server := pair(t)
	narrow(server)
	bufs := newBuffers()
	bufs.lent = new(atomic.Int64)
	b := &box{Outbox: newOutbox(server, rawOf(server), bufs, limit), client: client}
	b.broken = func(err error) {
		b.broke.Add(1)
		b.why.Store(&err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		b.close(0)
		_ = server.Close()
		if n := bufs.lent.Load(); n != 0 {
			t.Errorf("%d buffers not given back", n)
		}
	})
	return b
}

// deliver appends a delivery of body and tells whether it was taken.
func (b *box) deliver(batch *core.Batch, body []byte) bool {
	buf, ok := b.BeginDelivery()
	if ok {
		b.End(batch, append(buf, body...))
	}
	return ok
}

func (b *box) answer(batch *core.Batch, body []byte) { b.End(batch, append(b.BeginAnswer(), body...)) }

// everyCarrier runs f over a pipe, TCP and a unix socket.
func everyCarrier(t *testing.T, limit int, f func(t *testing.T, b *box)) {
	t.Helper()
	for _, c := range carriers {
		t.Run(c.name, func(t *testing.T) { f(t, newBox(t, c.pair, limit)) })
	}
}

// parcel is a frame of the tests below: length, writer, number, filling.
func parcel(writer, number, filling int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(12+filling))
	b = binary.BigEndian.AppendUint32(b, uint32(writer))
	b = binary.BigEndian.AppendUint32(b, uint32(number))
	return append(b, bytes.Repeat([]byte{byte(writer + number)}, filling)...)
}

func readParcel(r io.Reader) (writer, number int, err error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	body := make([]byte, int(binary.BigEndian.Uint32(head[:]))-len(head))
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, 0, err
	}
	writer, number = int(binary.BigEndian.Uint32(head[4:])), int(binary.BigEndian.Uint32(head[8:]))
	for i, c := range body {
		if c != byte(writer+number) {
			return writer, number, fmt.Errorf("parcel %d of %d: byte %d is wrong", number, writer, i)
		}
	}
	return writer, number, nil
}

// put sends one parcel in one of the ways that there are.
func (b *box) put(batch *core.Batch, r *rand.Rand, writer, number int) (ok bool) {
	p := parcel(writer, number, r.IntN(100))
	if r.IntN(20) == 0 {
		p = parcel(writer, number, r.IntN(40_000))
	}
	var buf []byte
	if r.IntN(2) == 0 {
		buf = b.BeginAnswer()
	} else if buf, ok = b.BeginDelivery(); !ok {
		return false
	}
	if r.IntN(10) == 0 {
		b.Cancel()
		buf = b.BeginAnswer()
	}
	cut, tail := r.IntN(len(p)), len(p)
	if r.IntN(2) == 0 {
		tail = cut + r.IntN(len(p)-cut)
	}
	b.EndLarge(batch, append(buf, p[:cut]...), p[cut:tail], p[tail:])
	if r.IntN(10) == 0 {
		batch.Flush()
	}
	return true
}

// Several writers, each with its own batch, all sizes, partial writes: what
// comes out is what each put in, in its order.
func TestOutboxKeepsOrder(t *testing.T) {
	everyCarrier(t, 64<<10, func(t *testing.T, b *box) {
		const writers, each = 4, 400
		roomy := sync.NewCond(new(sync.Mutex))
		rooms := 0
		b.onRoom(func(*core.Batch) {
			roomy.L.Lock()
			defer roomy.L.Unlock()
			rooms++
			roomy.Broadcast()
		})
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				var batch core.Batch
				r := rand.New(rand.NewPCG(uint64(w), 1))
				for n := 0; n < each; n++ {
					roomy.L.Lock()
					before := rooms
					roomy.L.Unlock()
					for !b.put(&batch, r, w, n) {
						batch.Flush()
						roomy.L.Lock()
						for rooms == before {
							roomy.Wait()
						}
						before = rooms
						roomy.L.Unlock()
					}
				}
				batch.Flush()
			})
		}
		next := [writers]int{}
		for range writers * each {
			w, n, err := readParcel(b.client)
			if err != nil {
				t.Fatal(err)
			}
			if n != next[w] {
				t.Fatalf("writer %d: parcel %d, want %d", w, n, next[w])
			}
			next[w]++
		}
		wg.Wait()
		soon(t, "an idle outbox holds nothing", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return !b.writing && b.unsent == 0 && b.cur == nil && b.bufs.lent.Load() == 0
		})
	})
}

// A delivery may be refused at the very moment that the writer finds nothing
// left; the call that there is room must come all the same.
func TestOutboxNeverMissesRoom(t *testing.T) {
	everyCarrier(t, 4096, func(t *testing.T, b *box) {
		room := make(chan struct{}, 1)
		b.onRoom(func(*core.Batch) {
			select {
			case room <- struct{}{}:
			default:
			}
		})
		const total = 20_000
		body := make([]byte, 700)
		go func() { _, _ = io.CopyN(io.Discard, b.client, int64(total*len(body))) }()
		var batch core.Batch
		for range total {
			for !b.deliver(&batch, body) {
				batch.Flush()
				within(t, "room", room)
			}
		}
		batch.Flush()
		soon(t, "all is sent", func() bool { return b.Unsent() == 0 })
	})
}

func TestOutboxCallsRoomOnlyWhenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, carriers[0].pair, 4096)
		var rooms atomic.Int32
		b.onRoom(func(*core.Batch) { rooms.Add(1) })
		var batch core.Batch
		b.deliver(&batch, make([]byte, 4095))
		if !b.deliver(&batch, make([]byte, 3*4096)) {
			t.Fatal("refused below the limit")
		}
		batch.Flush()
		read := func(n int) {
			t.Helper()
			if _, err := io.ReadFull(b.client, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		read(4095 + 3*4096)
		if rooms.Load() != 0 {
			t.Error("room was called and nothing was refused")
		}
		for b.deliver(&batch, make([]byte, 16)) {
		}
		unsent := b.Unsent()
		if unsent < 4096 {
			t.Errorf("refused with %d bytes waiting", unsent)
		}
		if rooms.Load() != 0 {
			t.Error("room was called while there was none")
		}
		batch.Flush()
		read(unsent)
		if rooms.Load() != 1 {
			t.Errorf("room was called %d times, want once", rooms.Load())
		}
	})
}

// What room makes others write is flushed, and what it brings into its own
// outbox is sent.
func TestOutboxFlushesWhatRoomBrought(t *testing.T) {
	everyCarrier(t, 4096, func(t *testing.T, b *box) {
		other := newBox(t, carriers[1].pair, 4096)
		left := 10
		b.onRoom(func(batch *core.Batch) {
			other.deliver(batch, []byte("other"))
			for left > 0 && b.deliver(batch, make([]byte, 4096)) {
				left--
			}
		})
		var batch core.Batch
		for b.deliver(&batch, make([]byte, 4096)) {
		}
		batch.Flush()
		if _, err := io.ReadFull(b.client, make([]byte, 11*4096)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other.client, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOutboxTakesLargeDeliveriesWhole(t *testing.T) {
	everyCarrier(t, 4096, func(t *testing.T, b *box) {
		payload := bytes.Repeat([]byte("payload "), 5<<20/8)
		var batch core.Batch
		buf, ok := b.BeginDelivery()
		if !ok {
			t.Fatal("refused by an empty outbox")
		}
		b.EndLarge(&batch, append(buf, "head"...), payload, []byte("tail"))
		batch.Flush()
		b.answer(&batch, []byte("answer"))
		batch.Flush()
		got := make([]byte, 4+len(payload)+4+6)
		if _, err := io.ReadFull(b.client, got); err != nil {
			t.Fatal(err)
		}
		if string(got[:4]) != "head" || !bytes.Equal(got[4:4+len(payload)], payload) || string(got[4+len(payload):]) != "tailanswer" {
			t.Error("not what was sent")
		}
		if b.broke.Load() > 0 {
			t.Error("a large delivery broke the connection")
		}
	})
}

// A message in parts, each behind a head of its own.
func TestOutboxTakesSeveralParts(t *testing.T) {
	everyCarrier(t, 4096, func(t *testing.T, b *box) {
		var batch core.Batch
		var want []byte
		for _, size := range []int{100, 5000, 100, 70_000, 0, 9000, 9000} {
			buf := b.BeginAnswer()
			for _, part := range []int{size, size / 2} {
				payload := bytes.Repeat([]byte{byte(size)}, part)
				buf = b.AppendLarge(append(buf, "head"...), payload)
				want = append(append(want, "head"...), payload...)
			}
			b.End(&batch, append(buf, "end"...))
			want = append(want, "end"...)
		}
		batch.Flush()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(b.client, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Error("not what was sent")
		}
	})
}

// A payload is its message's: no later frame may be written over it.
func TestOutboxLeavesPayloadsAlone(t *testing.T) {
	everyCarrier(t, 1<<20, func(t *testing.T, b *box) {
		payload := make([]byte, writeSize)
		var batch core.Batch
		for range 20 {
			b.EndLarge(&batch, append(b.BeginAnswer(), 1), payload, nil)
		}
		batch.Flush()
		if _, err := io.ReadFull(b.client, make([]byte, 20*(1+writeSize))); err != nil {
			t.Fatal(err)
		}
		for range 50 {
			lent := b.bufs.getWrite()
			defer b.bufs.putWrite(lent)
			for i := range lent.b[:cap(lent.b)] {
				lent.b[:cap(lent.b)][i] = 7
			}
		}
		if i := bytes.IndexByte(payload, 7); i >= 0 {
			t.Errorf("byte %d of a payload was overwritten", i)
		}
	})
}

// Answers are taken beyond the limit, then the reader has to stop, then the
// connection ends.
func TestOutboxBoundsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, carriers[0].pair, 4096)
		var batch core.Batch
		// A large delivery does not count as answers.
		if !b.deliver(&batch, make([]byte, 8<<20)) {
			t.Fatal("refused")
		}
		body := make([]byte, 1<<10)
		for i := 0; ; i++ {
			if stop := b.roomForAnswers() != nil; stop != (i > maxAnswers>>10) {
				t.Fatalf("reading stops: %v after %d KiB of answers", stop, i)
			}
			if b.answer(&batch, body); b.broke.Load() > 0 {
				if i != hardLimit>>10+1 {
					t.Errorf("ended after %d KiB", i)
				}
				break
			}
		}
		if err := *b.why.Load(); !errors.Is(err, ErrNotReading) {
			t.Error(err)
		}
		b.answer(&batch, body)
		batch.Flush()
		if n := b.broke.Load(); n != 1 {
			t.Errorf("broken was called %d times", n)
		}
		start := time.Now()
		if b.close(time.Minute); time.Since(start) > 0 {
			t.Errorf("a broken outbox was closed after %v", time.Since(start))
		}
	})
}

func TestOutboxLetsTheReaderGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, carriers[0].pair, 4096)
		var batch core.Batch
		for range 3 {
			for b.roomForAnswers() == nil {
				b.answer(&batch, make([]byte, 8<<10))
			}
			batch.Flush()
			went := make(chan struct{})
			go func() {
				<-b.roomForAnswers()
				close(went)
			}()
			synctest.Wait()
			for b.Unsent() > 4096 {
				select {
				case <-went:
					t.Fatal("the reader went on too early")
				default:
				}
				if _, err := io.ReadFull(b.client, make([]byte, 8<<10)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			<-went
		}
		_, _ = io.CopyN(io.Discard, b.client, int64(b.Unsent()))
	})
}

func TestOutboxSmallThings(t *testing.T) {
	b := newBox(t, carriers[1].pair, 4096)
	var batch core.Batch
	b.End(&batch, b.BeginAnswer()) // nothing
	buf, _ := b.BeginDelivery()
	_ = append(buf, "thrown away"...)
	b.Cancel()
	if b.bufs.lent.Load() != 0 || b.Unsent() != 0 {
		t.Error("an empty outbox holds a buffer")
	}
	b.Flush()
	b.answer(nil, []byte("now")) // a nil batch
	if got := make([]byte, 3); true {
		if _, err := io.ReadFull(b.client, got); err != nil || string(got) != "now" {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestOutboxIsInABatchOnce(t *testing.T) {
	b := newBox(t, carriers[1].pair, 1<<20)
	var one, two core.Batch
	for range 100 {
		b.answer(&one, []byte("x"))
		b.answer(&two, []byte("y"))
	}
	two.Flush() // was not asked to: the bytes are in the first batch
	if b.Unsent() != 200 {
		t.Errorf("%d bytes wait, want 200", b.Unsent())
	}
	one.Flush()
	if b.Unsent() != 0 {
		t.Errorf("%d bytes wait after the flush", b.Unsent())
	}
}

func BenchmarkOutboxAppend(b *testing.B) {
	_, server := net.Pipe()
	o := newOutbox(server, nil, newBuffers(), 1<<30)
	o.writing = true // nobody writes
	var batch core.Batch
	body := make([]byte, 66)
	for b.Loop() {
		buf, _ := o.BeginDelivery()
		o.End(&batch, append(buf, body...))
		if o.unsent > 64<<10 {
			o.discard()
			o.unsent = 0
		}
	}
}
