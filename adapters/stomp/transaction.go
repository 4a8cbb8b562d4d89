package stomp

import (
	"bytes"

	"entrepot/core"
)

// transaction gathers the frames between BEGIN and COMMIT. Nothing is done before
// COMMIT, so that ABORT and the end of the connection leave no trace.
type transaction struct {
	ops []core.Op
	// session is the one whose deliveries are settled, nil while none is: one Apply is
	// of one session, and a durable subscription has its own.
	session *core.Session
	taken   []takenMessage
	bytes   int
}

// takenMessage is a delivery that the transaction settles.
type takenMessage struct {
	subscription *subscription
	number       uint64
}

// transaction does BEGIN, COMMIT and ABORT (STOMP 1.2).
func (c *conn) transaction(f *frame) error {
	if !f.has.holds(transactionHeader) || len(f.value(transactionHeader)) == 0 {
		return malformed("BEGIN, COMMIT and ABORT need a transaction header")
	}
	id := string(f.value(transactionHeader))
	open := c.transactions[id]
	if f.command == beginCommand {
		return c.begin(f, id, open != nil)
	}
	if open == nil {
		return bad("no such transaction")
	}
	delete(c.transactions, id)
	c.gathered -= open.bytes
	if f.command == abortCommand {
		open.giveBack()
		c.acknowledge(f)
		return nil
	}
	c.commit(f, open)
	return nil
}

func (c *conn) begin(f *frame, id string, taken bool) error {
	switch {
	case taken:
		return bad("there is a transaction with that id already")
	case len(c.transactions) >= c.cfg.MaxTransactions:
		return bad("more than %d open transactions", c.cfg.MaxTransactions)
	}
	if c.transactions == nil {
		c.transactions = map[string]*transaction{}
	}
	c.transactions[id] = &transaction{}
	c.acknowledge(f)
	return nil
}

// commit does all of it or none.
func (c *conn) commit(f *frame, t *transaction) {
	asked := f.has.holds(receiptHeader)
	receipt := bytes.Clone(f.value(receiptHeader))
	freed := 0
	for _, m := range t.taken {
		freed += m.subscription.forget(m.number)
	}
	defer c.free(freed)
	session := c.session
	if t.session != nil {
		session = t.session
	}
	session.Apply(c.lane, t.ops, func(_ bool, err error) {
		switch {
		case err != nil:
			c.fail(err, receipt)
		case asked:
			c.sendReceipt(receipt)
		}
	})
}

// openTransaction is the transaction that a frame belongs to, with room for n more
// operations of that many bytes.
func (c *conn) openTransaction(f *frame, n, bytes int) (*transaction, error) {
	t := c.transactions[string(f.value(transactionHeader))]
	if t == nil {
		return nil, bad("no such transaction")
	}
	if len(t.ops)+n > c.cfg.TransactionFrames || c.gathered+bytes > c.cfg.TransactionBytes {
		return nil, &fault{message: "transaction too large", cause: core.ErrTooLarge}
	}
	t.bytes += bytes
	c.gathered += bytes
	return t, nil
}

// enqueue keeps a SEND for COMMIT.
func (c *conn) enqueue(f *frame, m *core.Message) error {
	if m.Retain {
		return &fault{message: "not supported", detail: "retain in a transaction", cause: core.ErrUnsupported}
	}
	t, err := c.openTransaction(f, 1, f.line+len(m.Payload))
	if err != nil {
		return err
	}
	t.ops = append(t.ops, core.Op{Message: m})
	c.acknowledge(f)
	return nil
}

// settleLater keeps an ACK or NACK for COMMIT.
func (c *conn) settleLater(f *frame, s *subscription, number uint64, o core.Outcome) error {
	s.mu.Lock()
	from, to, ok := s.held.reach(number, s.mode == clientAck)
	s.mu.Unlock()
	if !ok {
		return notOut()
	}
	t, err := c.openTransaction(f, to-from, 0)
	if err != nil {
		return err
	}
	if t.session != nil && t.session != s.source.session {
		return &fault{message: "not supported", cause: core.ErrUnsupported,
			detail: "one transaction that acknowledges messages of a durable subscription and of another one"}
	}
	t.session = s.source.session
	t.take(s, from, to, o)
	c.acknowledge(f)
	return nil
}

// take keeps the settlement of what an ACK reaches. No other lock may be taken under
// the subscription's.
func (t *transaction) take(s *subscription, from, to int, o core.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from; i < to; i++ {
		m := &s.held.list[i]
		if m.state != isOut {
			continue
		}
		m.state = isTaken
		t.ops = append(t.ops, core.Op{Consumer: s.consumer, Seq: m.seq, Outcome: o})
		t.taken = append(t.taken, takenMessage{s, m.number})
	}
}

// giveBack makes what the transaction would have settled wait for ACK again.
func (t *transaction) giveBack() {
	for _, m := range t.taken {
		m.subscription.setState(m.number, isOut)
	}
}
