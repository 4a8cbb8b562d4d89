package amqp

import (
	"context"
	"errors"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
)

// transaction gathers publishes and acknowledgements between tx.select or the
// last commit and the next (AMQP 0-9-1, 1.9). Nothing is done before commit, so
// that a rollback and the end of the channel leave no trace.
type transaction struct {
	ops   []core.Op
	taken []heldMessage
	bytes int
	// checked is the last target whose exchange was looked for.
	checked *target
}

func (ch *channel) selectTransaction() error {
	if ch.confirming {
		return refuse(frame.PreconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.transaction == nil {
		ch.transaction = &transaction{}
	}
	ch.conn.reply(ch, frame.TxSelectOK, nil)
	return nil
}

// room refuses n more operations of so many bytes.
func (ch *channel) room(n, bytes int) error {
	t, cfg := ch.transaction, ch.conn.cfg
	if len(t.ops)+n > cfg.TransactionOps || t.bytes+bytes > cfg.TransactionBytes {
		return refuse(frame.PreconditionFailed, "transaction too large: more than %d operations or %d bytes",
			cfg.TransactionOps, cfg.TransactionBytes)
	}
	t.bytes += bytes
	return nil
}

// enqueue keeps a publish for commit.
func (ch *channel) enqueue(m *core.Message, in *content) error {
	if m.Retain {
		return refuse(frame.PreconditionFailed, "a retained message in a transaction is not supported")
	}
	if err := ch.room(1, len(m.Payload)+heldCost); err != nil {
		return err
	}
	if err := ch.checkExchange(in.to); err != nil {
		return err
	}
	op := core.Op{Message: m}
	if to := in.to; in.mandatory {
		op.Unrouted = func() { ch.giveBack(m, to) }
	}
	ch.transaction.ops = append(ch.transaction.ops, op)
	return nil
}

// checkExchange refuses a publish to an exchange that is not there at once, as
// outside of a transaction; all else shows at commit.
func (ch *channel) checkExchange(to *target) error {
	t, x := ch.transaction, core.ExchangeSpec{Name: to.address.Exchange, Passive: true}
	if to == t.checked || x.Name == core.DefaultExchange {
		return nil
	}
	t.checked = to
	ch.conn.wait()
	if err := ch.conn.session.DeclareExchange(context.Background(), x); errors.Is(err, core.ErrNotFound) {
		return ch.conn.faultOf(err, ch.conn.exchangeNoun(to.exchange))
	}
	return nil
}

// settleLater keeps acknowledgements for commit; what they settle stays out.
func (ch *channel) settleLater(taken []heldMessage, o core.Outcome) error {
	t := ch.transaction
	if err := ch.room(len(taken), 0); err != nil {
		return err
	}
	for _, m := range taken {
		t.ops = append(t.ops, core.Op{Consumer: m.from.queue, Seq: m.seq, Outcome: o})
	}
	t.taken = append(t.taken, taken...)
	return nil
}

// commit does all of it or none.
func (ch *channel) commit() {
	t := ch.transaction
	ch.transaction = &transaction{}
	ch.mu.Lock()
	freed, starved := ch.held.release(t.taken)
	ch.mu.Unlock()
	c := ch.conn
	c.session.Apply(ch.lane, t.ops, func(_ bool, err error) {
		switch {
		case err == nil:
			c.reply(ch, frame.TxCommitOK, nil)
		case errors.Is(err, core.ErrFull):
			ch.refuse(&fault{code: frame.PreconditionFailed, text: "transaction not committed: " + err.Error(),
				method: frame.TxCommit, cause: err})
		default:
			f := c.faultOf(err, noun{"resource", "of the transaction", c.vhost})
			if errors.Is(err, core.ErrNotFound) {
				f.text = err.Error()
			}
			f.method = frame.TxCommit
			ch.refuse(f)
		}
	})
	ch.prune()
	ch.free(freed, starved)
}

// rollback forgets what was gathered; what was acknowledged is out again.
func (ch *channel) rollback() {
	t := ch.transaction
	ch.transaction = &transaction{}
	ch.mu.Lock()
	ch.held.restore(t.taken)
	ch.mu.Unlock()
	ch.conn.reply(ch, frame.TxRollbackOK, nil)
}
