package adapters

import "sync/atomic"

// Unacked bounds the bytes of messages that are out at one connection until their
// acknowledgement: so long they are in memory, however they are stored. Methods may
// be called from any goroutine.
type Unacked struct {
	most    int64
	reached func()
	bytes   atomic.Int64
	starved atomic.Bool // a delivery was refused, and nobody told since that there is room
}

// NewUnacked calls reached each time that deliveries begin to be refused.
func NewUnacked(most int, reached func()) *Unacked {
	return &Unacked{most: int64(most), reached: reached}
}

// Full tells whether nothing more may be sent. One message may always be out,
// however large. Called under the outbox's lock, before Add.
func (u *Unacked) Full() bool {
	if u.bytes.Load() < u.most {
		return false
	}
	if !u.starved.Swap(true) {
		u.reached()
	}
	return u.bytes.Load() >= u.most // Free may not have seen starved
}

// Add counts a message that is sent.
func (u *Unacked) Add(n int) { u.bytes.Add(int64(n)) }

// Free counts what is not out any more. It tells whether there is room that others
// than those who sent it wait for: resume all consumers of the connection.
func (u *Unacked) Free(n int) bool {
	return u.bytes.Add(-int64(n)) < u.most && u.starved.Swap(false)
}

// Bytes is what is out.
func (u *Unacked) Bytes() int64 { return u.bytes.Load() }
