package amqp

import (
	"errors"
	"sync"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// modeMethod does confirm.select and the methods of class tx.
func (ch *channel) modeMethod(m frame.Method, r *frame.Reader) error {
	noWait := m == frame.ConfirmSelect && r.Bits()&1 != 0
	if err := ended(r); err != nil {
		return err
	}
	switch m {
	case frame.ConfirmSelect:
		if ch.transaction != nil {
			return refuse(frame.PreconditionFailed, "cannot switch from tx to confirm mode")
		}
		ch.confirming = true
		if !noWait {
			ch.conn.reply(ch, frame.ConfirmSelectOK, nil)
		}
		return nil
	case frame.TxSelect:
		return ch.selectTransaction()
	case frame.TxCommit, frame.TxRollback:
		if ch.transaction == nil {
			return refuse(frame.PreconditionFailed, "channel is not transactional")
		}
		if m == frame.TxCommit {
			ch.commit()
		} else {
			ch.rollback()
		}
		return nil
	}
	return ch.unknown()
}

// confirm counts a channel's publishes in confirm mode. Its lane ends them in
// their order, so that they need no number each. Under confirmations.mu.
type confirm struct {
	done    uint64 // that many have ended
	told    uint64 // and of that many the client knows
	refused []uint64
	waits   bool // in confirmations.channels
}

// confirmations gathers what clients are to be told, so that one basic.ack
// tells of many: the reader tells when its input is used up, and a goroutine
// when something ends while the reader is at rest.
type confirmations struct {
	mu       sync.Mutex
	channels []*channel
	telling  bool // the goroutine is on its way
}

// onConfirmed ends a publish in confirm mode: it is in all its queues, and on
// the disk where that was asked, or one of them refused it.
func (ch *channel) onConfirmed(routed bool, err error) {
	full := errors.Is(err, core.ErrFull) || errors.Is(err, core.ErrClosed)
	if err != nil && !full {
		ch.refuse(ch.publishFault(err))
		return
	}
	c := ch.conn
	if !routed && err == nil {
		c.session.Drops().Add(core.DropUnroutable, 1)
	}
	c.confirms.mu.Lock()
	defer c.confirms.mu.Unlock()
	k := &ch.confirm
	k.done++
	if full {
		k.refused = append(k.refused, k.done)
	}
	if !k.waits {
		k.waits = true
		c.confirms.channels = append(c.confirms.channels, ch)
	}
	if !c.feeding.Load() && !c.confirms.telling {
		c.confirms.telling = true
		go c.tellLater()
	}
}

func (c *conn) tellLater() {
	c.confirms.mu.Lock()
	c.confirms.telling = false
	c.confirms.mu.Unlock()
	var b core.Batch
	c.tellConfirms(&b)
	b.Flush()
}

// tellConfirms writes what is due.
func (c *conn) tellConfirms(b *core.Batch) {
	c.confirms.mu.Lock()
	defer c.confirms.mu.Unlock()
	for i, ch := range c.confirms.channels {
		ch.tell(b)
		c.confirms.channels[i] = nil
	}
	c.confirms.channels = c.confirms.channels[:0]
}

// tell writes a channel's. With confirmations.mu held, so that they stay in
// order.
func (ch *channel) tell(b *core.Batch) {
	k := &ch.confirm
	k.waits = false
	buf, ok := ch.conn.begin(ch)
	if !ok {
		return
	}
	for _, n := range k.refused {
		buf = ch.appendAcks(buf, n-1)
		buf = appendSettled(buf, ch.id, frame.BasicNack, n, false)
		k.told = n
	}
	k.refused = nil
	buf = ch.appendAcks(buf, k.done)
	ch.conn.writes++
	ch.conn.conn.Outbox.End(b, buf)
}

// appendAcks tells that all up to n are confirmed.
func (ch *channel) appendAcks(buf []byte, n uint64) []byte {
	k := &ch.confirm
	if n <= k.told {
		return buf
	}
	buf = appendSettled(buf, ch.id, frame.BasicAck, n, n-k.told > 1)
	k.told = n
	return buf
}

// appendSettled writes basic.ack or basic.nack.
func appendSettled(buf []byte, channel uint16, m frame.Method, n uint64, multiple bool) []byte {
	start := len(buf)
	buf = frame.AppendLongLong(frame.Begin(buf, channel, m), n)
	return frame.End(frame.AppendBit(buf, multiple), start)
}
