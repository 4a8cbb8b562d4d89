package core

import (
	"sync/atomic"

	"entrepot/core/auth"
)

// Traffic counts one connection's messages and payload bytes. In is counted by
// Session.Publish; Out by the adapter as it hands a message to its client.
type Traffic struct {
	In, InBytes, Out, OutBytes atomic.Uint64
}

// CountOut notes one message of n payload bytes. Called by one goroutine at a
// time (under the outbox's lock), so it needs no locked instruction.
func (t *Traffic) CountOut(n int) {
	t.Out.Store(t.Out.Load() + 1)
	t.OutBytes.Store(t.OutBytes.Load() + uint64(n))
}

func (t *Traffic) addTo(p *ProtocolStats) {
	p.In += t.In.Load()
	p.InBytes += t.InBytes.Load()
	p.Out += t.Out.Load()
	p.OutBytes += t.OutBytes.Load()
}

// ProtocolStats are one protocol's sums since the start.
type ProtocolStats struct {
	Connections                int // open now
	Connected                  uint64
	In, InBytes, Out, OutBytes uint64
	Dropped                    map[string]uint64 // by reason
	// RefusedLogins are by reason, see auth.Reason.
	RefusedLogins map[string]uint64
}

// Stats is the broker's state at one moment.
type Stats struct {
	Protocols map[string]ProtocolStats
	Sessions  int // resumable, connected or not
	Retained  int
	// RetainedBytes counts payload bytes.
	RetainedBytes int64
	Engine        EngineStats
	// Limited is Broker.Limited.
	Limited map[string]uint64
}

// protocol is what the broker keeps for each protocol name.
type protocol struct {
	drops     Drops
	unheard   unheard
	open      map[*Session]struct{}
	connected uint64
	past      ProtocolStats // of sessions that ended
	refused   map[auth.Reason]uint64
}

// Drops is the counter of a protocol's dropped messages.
func (b *Broker) Drops(name string) *Drops {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &b.protocolLocked(name).drops
}

func (b *Broker) protocol(name string) *protocol {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.protocolLocked(name)
}

func (b *Broker) protocolLocked(name string) *protocol {
	p := b.protocols[name]
	if p == nil {
		p = &protocol{open: map[*Session]struct{}{}}
		p.unheard = newUnheard(&p.drops)
		b.protocols[name] = p
	}
	return p
}

func (b *Broker) opened(s *Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.protocolLocked(s.origin.Protocol)
	p.open[s] = struct{}{}
	p.connected++
	s.rec.present = s
	s.meters = b.metersLocked(&s.hello)
	if until := s.hello.Principal.Until; !until.IsZero() {
		b.deadlines.set(s, until)
	}
	if n := b.cfg.Clients.Replayed; n > 0 {
		s.replays = newMeter(n, 0, replayBurst)
	}
}

func (b *Broker) closed(s *Session) {
	b.deadlines.clear(s)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.protocolLocked(s.origin.Protocol)
	if _, ok := p.open[s]; ok {
		delete(p.open, s)
		if s.rec.present == s {
			s.rec.present = nil
		}
		b.partLocked(s.hello.Principal.User)
		s.Traffic.addTo(&p.past)
	}
}

// Stats sums up. Its cost grows with connections and queues; meant for a
// scrape, not for every message.
func (b *Broker) Stats() Stats {
	st := Stats{Protocols: map[string]ProtocolStats{}, Engine: b.engine.Stats(), Limited: b.Limited()}
	st.Retained, st.RetainedBytes = b.retained.size()
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Sessions = len(b.sessions)
	for name, p := range b.protocols {
		sum := p.past
		sum.Connections, sum.Connected = len(p.open), p.connected
		for s := range p.open {
			s.Traffic.addTo(&sum)
		}
		sum.Dropped = map[string]uint64{}
		sum.RefusedLogins = map[string]uint64{}
		for why, n := range p.refused {
			sum.RefusedLogins[string(why)] = n
		}
		p.drops.Each(func(r DropReason, n uint64) { sum.Dropped[r.String()] = n })
		st.Protocols[name] = sum
	}
	return st
}
