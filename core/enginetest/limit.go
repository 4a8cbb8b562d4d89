package enginetest

import "entrepot/core"

func limitTests() []test {
	return []test{
		{"x-max-length drops the oldest and counts", maxLength},
		{"x-max-length-bytes drops the oldest until it fits", maxBytes},
		{"what is out for settlement does not count", outDoesNotCount},
		{"a length of zero is for those who wait", maxLengthZero},
		{"what comes back over the limit drops the oldest", backOverLimit},
		{"reject-publish refuses the new one with ErrFull", rejectPublish},
		{"reject-publish keeps what comes back", rejectKeeps},
		{"the limits hold for a long backlog, and for what an Apply brings", backlogTrimmed},
		{"a session queue does not drop what its client may know", sessionKeepsStarted},
	}
}

func length(n int, o core.Overflow) func(*core.QueueSpec) {
	return args(core.QueueArgs{MaxLength: n, HasMaxLength: true, Overflow: o})
}

// drain takes all that is ready.
func (r *rig) drain(k core.QueueKey, want ...string) {
	r.Helper()
	p := r.settling()
	c := r.consume(k, p)
	p.want(want...)
	c.Cancel(core.Requeue)
}

func maxLength(r *rig) {
	k := r.queue("q", length(2, core.DropHead))
	r.send("", "q", "1", "2", "3", "4")
	r.wantInfo(k, 2, 0, 2)
	r.wantDropped(core.DropOverflow, 2)
	r.drain(k, "3", "4")
}

func maxBytes(r *rig) {
	k := r.queue("q", args(core.QueueArgs{MaxBytes: 5, HasMaxBytes: true}))
	r.send("", "q", "11", "2", "33")
	r.wantInfo(k, 3, 0, 5)
	r.send("", "q", "444")
	r.wantInfo(k, 2, 0, 5)
	r.wantDropped(core.DropOverflow, 2)
	r.send("", "q", "larger than all")
	r.wantInfo(k, 0, 0, 0)
	r.send("", "q", "5")
	r.drain(k, "5")
}

func outDoesNotCount(r *rig) {
	k := r.queue("q", args(core.QueueArgs{MaxLength: 1, HasMaxLength: true, MaxBytes: 1, HasMaxBytes: true}))
	p := r.taking(2)
	r.consume(k, p)
	r.send("", "q", "1", "2", "3")
	r.wantInfo(k, 1, 2, 3)
	r.wantDropped(core.DropOverflow, 0)
}

func maxLengthZero(r *rig) {
	k := r.queue("q", length(0, core.DropHead))
	r.send("", "q", "1")
	r.wantInfo(k, 0, 0, 0)
	p := r.taking(1)
	r.consume(k, p)
	r.send("", "q", "2", "3")
	p.want("2")
	r.wantDropped(core.DropOverflow, 2)
}

func backOverLimit(r *rig) {
	k := r.queue("q", length(2, core.DropHead))
	p := r.taking(2)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3", "4")
	r.wantInfo(k, 2, 2, 4)
	c.Cancel(core.Requeue)
	r.wantInfo(k, 2, 0, 2)
	r.wantDropped(core.DropOverflow, 2)
	r.drain(k, "3", "4")
}

func rejectPublish(r *rig) {
	k := r.queue("q", args(core.QueueArgs{MaxLength: 2, HasMaxLength: true, MaxBytes: 4, HasMaxBytes: true, Overflow: core.RejectPublish}))
	r.send("", "q", "1", "2")
	_, err := r.publish(r.message("", "q", "3"))
	r.wantError(err, core.ErrFull)
	r.drain(k, "1", "2")
	_, err = r.publish(r.message("", "q", "55555"))
	r.wantError(err, core.ErrFull)
	r.send("", "q", "4444")
	r.wantInfo(k, 1, 0, 4)
	r.wantDropped(core.DropOverflow, 0)
}

func rejectKeeps(r *rig) {
	k := r.queue("q", length(1, core.RejectPublish))
	p := r.taking(2)
	c := r.consume(k, p)
	r.send("", "q", "1", "2", "3")
	c.Cancel(core.Requeue)
	r.wantInfo(k, 3, 0, 3)
	r.wantDropped(core.DropOverflow, 0)
	_, err := r.publish(r.message("", "q", "4"))
	r.wantError(err, core.ErrFull)
	r.drain(k, "1", "2", "3")
}

// sessionKeepsStarted: an MQTT client that resumes must see the packet ids
// that it knows again [MQTT-4.4.0-1].
func sessionKeepsStarted(r *rig) {
	k := r.queue("client", kind(core.SessionQueue), length(2, core.DropHead))
	r.bind(core.TopicExchange, "a", k)
	p := r.taking(2)
	c := r.consume(k, p)
	r.send(core.TopicExchange, "a", "1", "2", "3", "4", "5")
	p.want("1", "2")
	c.Cancel(core.Return)
	r.wantInfo(k, 2, 0, 2)
	r.wantDropped(core.DropOverflow, 3)
	r.send(core.TopicExchange, "a", "6")
	r.drain(k, "1", "2")
}

func backlogTrimmed(r *rig) {
	k := r.queue("q", func(s *core.QueueSpec) { s.Durable = true }, length(20, core.DropHead))
	op := r.publication("", "q", "xx")
	op.Message.Guarantee = core.Durable
	for range 3 {
		ops := make([]core.Op, 30)
		for i := range ops {
			ops[i] = op
		}
		_, err := r.apply(ops...)
		r.must(err)
		r.wantInfo(k, 20, 0, 40)
		r.send("", "q", "y", "z")
		r.wantInfo(k, 20, 0, 38)
	}
	r.wantDropped(core.DropOverflow, 3*32-20)
	p := r.settling()
	r.consume(k, p)
	if got := p.take(); len(got) != 20 || string(got[19].Payload) != "z" {
		r.Fatalf("%d received", len(got))
	}
}
