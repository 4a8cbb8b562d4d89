package enginetest

import "entrepot/core"

func ownerTests() []test {
	return []test{
		{"an exclusive queue is its session's alone, at every verb [AMQP 1.7.2.1.5]", exclusiveQueue},
		{"anybody may publish to an exclusive queue", publishToExclusive},
		{"the broker may delete an exclusive queue", brokerDeletes},
		{"delete if owned", deleteIfOwned},
		{"an exclusive auto-delete queue", exclusiveAutoDelete},
	}
}

const owner, stranger core.SessionID = 5, 6

func exclusiveQueue(r *rig) {
	k := r.queue("q", exclusive(owner))
	binding := r.binding("amq.fanout", "", k)
	verbs := map[string]func(by core.SessionID) error{
		"declare": func(by core.SessionID) error {
			_, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, Exclusive: true, By: by})
			return err
		},
		"passive declare": func(by core.SessionID) error {
			_, err := r.engine.DeclareQueue(r.ctx, core.QueueSpec{Key: k, Passive: true, By: by})
			return err
		},
		"bind": func(by core.SessionID) error {
			binding.By = by
			_, err := r.engine.Bind(r.ctx, binding)
			return err
		},
		"purge": func(by core.SessionID) error {
			_, err := r.engine.PurgeQueue(r.ctx, k, by)
			return err
		},
		"consume": func(by core.SessionID) error {
			c, err := r.engine.Consume(r.ctx, k, core.ConsumeOptions{By: by}, r.probe())
			if err == nil {
				c.Cancel(core.Requeue)
			}
			return err
		},
	}
	for verb, do := range verbs {
		r.Log(verb)
		r.wantError(do(stranger), core.ErrLocked)
		r.must(do(owner))
	}
	binding.By = stranger
	r.wantError(r.engine.Unbind(r.ctx, binding), core.ErrLocked)
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{By: stranger})
	r.wantError(err, core.ErrLocked)
	r.delete(k, core.DeleteOptions{By: owner})
}

func publishToExclusive(r *rig) {
	k := r.queue("q", exclusive(owner))
	r.send("", "q", "1")
	r.wantInfo(k, 1, 0, 1)
}

func brokerDeletes(r *rig) {
	k := r.queue("q", exclusive(owner))
	p := r.probe()
	r.consume(k, p, func(o *core.ConsumeOptions) { o.By = owner })
	r.delete(k, core.DeleteOptions{})
	p.wantGone(1)
}

func deleteIfOwned(r *rig) {
	for _, edit := range []func(*core.QueueSpec){exclusive(stranger), func(s *core.QueueSpec) { s.By = owner }} {
		k := r.queue("q", edit)
		_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{IfOwned: true, By: owner})
		r.wantError(err, core.ErrLocked)
		r.delete(k, core.DeleteOptions{})
	}
	k := r.queue("q", exclusive(owner))
	r.delete(k, core.DeleteOptions{IfOwned: true, By: owner})
}

func exclusiveAutoDelete(r *rig) {
	k := r.queue("q", exclusive(owner), autoDelete)
	c := r.consume(k, r.probe(), func(o *core.ConsumeOptions) { o.By = owner })
	c.Cancel(core.Requeue)
	r.wantGone(k)
	r.queue("q", exclusive(stranger))
	_, err := r.engine.DeleteQueue(r.ctx, k, core.DeleteOptions{By: owner})
	r.wantError(err, core.ErrLocked)
}
