package core

// Bounds are how many named queues and exchanges a realm may have, those that it
// began with counted; 0 is no bound. What is there already stays.
type Bounds struct {
	Queues     int
	UserQueues int // of one user, whoever uses them; not for clients without a user
	Exchanges  int // without those that every realm has
	// Reached is called for each that is refused. It must not block.
	Reached func(Limit)
}

// bound tells an engine that keeps bounds what the settings say: what is beyond is
// refused with ErrLimit.
func (b *Broker) bound() {
	e, ok := b.engine.(interface{ Bound(Bounds) })
	if !ok {
		return
	}
	c := b.cfg.Clients
	e.Bound(Bounds{Queues: c.QueuesInAll, UserQueues: c.UserQueues, Exchanges: c.ExchangesInAll,
		Reached: func(l Limit) { b.limited[l].Add(1) }})
}
