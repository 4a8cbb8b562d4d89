package core

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// AlarmKind is something that a broker can run short of.
type AlarmKind uint8

const (
	// DiskAlarm: while it is on, what would fill the disk is refused with
	// ErrFull: durable messages, last values, new lasting sessions. Messages in
	// memory only, settlements, consumers and what removes something go on.
	DiskAlarm AlarmKind = iota
	// MemoryAlarm: while it is on, connections that publish are read slowly; see
	// Session.Pace.
	MemoryAlarm
	alarmKinds
)

// String is the kind as a metric label and in texts.
func (k AlarmKind) String() string { return [...]string{"disk", "memory"}[k%alarmKinds] }

// Alarm is the state of one kind.
type Alarm struct {
	Kind AlarmKind
	On   bool
	// Watched tells whether anybody looks: there may be no disk, or no mark.
	Watched bool
	// Have is what was found last, in bytes: free space of the disk, memory in
	// use. The alarm goes on when there is less space, or more memory in use,
	// than Mark, and off when it is past that by a good part.
	Have, Mark uint64
}

// String says it to people: "disk space: 120 MiB free, mark 256 MiB".
func (a Alarm) String() string {
	if a.Kind == DiskAlarm {
		return fmt.Sprintf("disk space: %s free, mark %s", mebibytes(a.Have), mebibytes(a.Mark))
	}
	return fmt.Sprintf("memory: %s in use, mark %s", mebibytes(a.Have), mebibytes(a.Mark))
}

// mebibytes is a size in whole MiB, small ones in KiB.
func mebibytes(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// off is the value at which an alarm ends: a quarter more space than the mark,
// a tenth less memory.
func (a Alarm) off() uint64 {
	if a.Kind == DiskAlarm {
		return a.Mark + a.Mark/4
	}
	return a.Mark - a.Mark/10
}

// edge is the value at which the alarm changes.
func (a Alarm) edge() uint64 {
	if a.On {
		return a.off()
	}
	return a.Mark
}

// next tells whether the alarm is on when there is so much.
func (a Alarm) next(have uint64) bool {
	if a.Kind == DiskAlarm {
		return have < a.edge()
	}
	return have > a.edge()
}

// Probes are how a broker finds out what there is. A nil one is not asked.
type Probes struct {
	// DiskFree is the bytes that durable data may still take.
	DiskFree func() (uint64, error)
	// MemoryUsed is the bytes that the process uses and cannot give back. What
	// matters is on which side of edge that is.
	MemoryUsed func(edge uint64) uint64
	// MemoryLimit is the bytes that it may use at most; 0 is not known.
	MemoryLimit uint64
}

// probeEvery is the time between two looks. Half a second of writing at full
// speed must fit between the disk mark and the end of the disk.
const probeEvery = 500 * time.Millisecond

// alarms keeps the state of all kinds.
type alarms struct {
	slow atomic.Bool // the memory alarm is on

	telling sync.Mutex // held over a change and the telling of it
	mu      sync.Mutex
	state   [alarmKinds]Alarm
	watched map[*watcher]struct{}
	broken  bool // the probe of the disk failed, and that was logged
	stop    func()
}

type watcher struct{ told func(Alarm) }

// Alarms is the state of all kinds, in the order of their constants.
func (b *Broker) Alarms() []Alarm {
	b.alarms.mu.Lock()
	defer b.alarms.mu.Unlock()
	b.alarms.state[MemoryAlarm].Kind = MemoryAlarm
	return append([]Alarm(nil), b.alarms.state[:]...)
}

// WatchAlarms has f called at every alarm's going on or off, in order, and
// before WatchAlarms returns for each that is on: before anything is refused for
// it, and when nothing is any more. f must not block. After stop,
// which f does not call, f is not called any more.
func (b *Broker) WatchAlarms(f func(Alarm)) (stop func()) {
	a := &b.alarms
	w := &watcher{f}
	a.telling.Lock()
	defer a.telling.Unlock()
	for _, now := range b.Alarms() {
		if now.On {
			f(now)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched == nil {
		a.watched = map[*watcher]struct{}{}
	}
	a.watched[w] = struct{}{}
	return func() {
		a.telling.Lock()
		defer a.telling.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watched, w)
	}
}

// Probe begins to look at what there is, by the marks of Config; Close ends it.
// Called once, before the first Connect.
func (b *Broker) Probe(p Probes) {
	a := &b.alarms
	a.mu.Lock()
	a.state[DiskAlarm] = Alarm{Kind: DiskAlarm, Mark: uint64(b.cfg.DiskMark),
		Watched: p.DiskFree != nil && b.cfg.DiskMark > 0}
	a.state[MemoryAlarm] = Alarm{Kind: MemoryAlarm, Mark: uint64(float64(p.MemoryLimit) * b.cfg.MemoryMark),
		Watched: p.MemoryUsed != nil && p.MemoryLimit > 0 && b.cfg.MemoryMark > 0}
	a.mu.Unlock()
	end, ended := make(chan struct{}), make(chan struct{})
	a.stop = sync.OnceFunc(func() {
		close(end)
		<-ended
	})
	b.look(p)
	go func() {
		defer close(ended)
		t := time.NewTicker(probeEvery)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				b.look(p)
			}
		}
	}()
}

// end ends the looking.
func (a *alarms) end() {
	if a.stop != nil {
		a.stop()
	}
}

// look asks all probes once.
func (b *Broker) look(p Probes) {
	for _, now := range b.Alarms() {
		if !now.Watched {
			continue
		}
		if now.Kind == MemoryAlarm {
			b.found(MemoryAlarm, p.MemoryUsed(now.edge()))
			continue
		}
		free, err := p.DiskFree()
		b.probed(err)
		if err == nil {
			b.found(DiskAlarm, free)
		}
	}
}

// probed logs a probe that fails, once; the alarm stays as it is.
func (b *Broker) probed(err error) {
	if failed := err != nil; failed != b.alarms.broken {
		b.alarms.broken = failed
		if failed {
			b.log.Warn("disk alarm: free space is not known", "realm", b.realm, "error", err)
		}
	}
}

// found takes what a probe found, and tells of a change.
func (b *Broker) found(k AlarmKind, have uint64) {
	a := &b.alarms
	a.telling.Lock()
	defer a.telling.Unlock()
	a.mu.Lock()
	s := &a.state[k]
	s.Have = have
	on := s.next(have)
	changed := on != s.On
	s.On = on
	now := *s
	var watching []*watcher
	if changed {
		for w := range a.watched {
			watching = append(watching, w)
		}
	}
	a.mu.Unlock()
	tell := func() {
		for _, w := range watching {
			w.told(now)
		}
	}
	if on {
		tell() // before anything is refused, so that who can waits instead
		b.applyAlarm(now)
	} else if changed {
		b.applyAlarm(now)
		tell()
	}
	if changed {
		b.logAlarm(now)
	}
}

func (b *Broker) logAlarm(now Alarm) {
	if now.On {
		b.log.Warn("alarm on", "realm", b.realm, "kind", now.Kind.String(), "reason", now.String())
	} else {
		b.log.Info("alarm off", "realm", b.realm, "kind", now.Kind.String(), "now", now.String())
	}
}

// How long a connection that published is not read under the memory alarm: one
// that holds deliveries has to settle them, which frees memory.
const (
	paceOfPublishers = time.Second
	paceOfHolders    = 100 * time.Millisecond
)

// Pace tells a connection's reader, after each read, whether little is to be read
// at a time, and how long to wait before the next: while the memory alarm is on
// and something was published since the last Pace, or as ClientConfig says. also
// yields the connection's other sessions; it may be nil. Called by one goroutine
// at a time.
func (s *Session) Pace(also iter.Seq[*Session]) (wait time.Duration, slow bool) {
	limited := s.meters != nil
	if limited || s.found.Load() > 0 {
		wait = s.metered()
	}
	if !s.broker.alarms.slow.Load() {
		return wait, limited
	}
	alarmed, slow := s.alarmed(also)
	return max(wait, alarmed), slow
}

// alarmed is Pace while the memory alarm is on.
func (s *Session) alarmed(also iter.Seq[*Session]) (wait time.Duration, slow bool) {
	published, holds := s.progress()
	if also != nil {
		for o := range also {
			_, h := o.progress()
			holds = holds || h
		}
	}
	switch {
	case !published:
		return 0, true
	case holds:
		return paceOfHolders, true
	}
	return paceOfPublishers, true
}

// Spend makes Pace count what the client sent and the broker keeps though it is no
// message, or not yet: messages of so many bytes in sum, which may both be 0. Called
// by the goroutine that calls Pace.
func (s *Session) Spend(messages, bytes int) {
	s.spends++
	s.spent += uint64(messages)
	s.spentB += uint64(bytes)
}

// progress tells whether the session published since the last call, and whether
// it holds deliveries.
func (s *Session) progress() (published, holds bool) {
	in := s.Traffic.In.Load() + s.spends
	published, s.paced = in != s.paced, in
	s.mu.Lock()
	open := make([]*heldConsumer, 0, len(s.consumers))
	for h := range s.consumers {
		open = append(open, h)
	}
	s.mu.Unlock()
	return published, slices.ContainsFunc(open, func(h *heldConsumer) bool { return h.Unsettled() > 0 })
}

// applyAlarm makes an alarm felt.
func (b *Broker) applyAlarm(now Alarm) {
	switch {
	case now.Kind == MemoryAlarm:
		b.alarms.slow.Store(now.On)
	case b.vault == nil:
	case now.On:
		b.vault.store.Refuse(fmt.Errorf("%s: %w", now, ErrFull))
	default:
		b.vault.store.Refuse(nil)
	}
}
