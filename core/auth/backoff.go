package auth

import (
	"errors"
	"net/netip"
	"sync"
	"time"
)

// BackoffConfig is what can be set about those who fail to log in.
type BackoffConfig struct {
	// User is how often a client may fail under one name from one address, and
	// Address under all names, before log-ins from there are put off: for a
	// second, then two, four, up to Longest. 0 is no limit. Who guesses nothing is
	// not put off for others at his address: a name that was proved from there
	// before, as long as it does not fail itself, and who comes by a certificate
	// or a key of DTLS alone.
	User    int `toml:"user"`
	Address int `toml:"address"`
	// Longest is how long at most; ten times as long without a failure, all is
	// forgotten.
	Longest time.Duration `toml:"longest"`
}

// DefaultBackoffConfig is what runs when nothing is set.
func DefaultBackoffConfig() BackoffConfig {
	return BackoffConfig{User: 10, Address: 100, Longest: time.Minute}
}

// Validate returns an error for a setting that makes no sense.
func (c BackoffConfig) Validate() error {
	switch {
	case c.User < 0 || c.Address < 0:
		return errors.New("user and address: not negative")
	case c.Longest < time.Second || c.Longest > time.Hour:
		return errors.New("longest: from 1s to 1h")
	}
	return nil
}

// Backoff counts log-ins that failed, by address and by address and name, so
// that a stranger who guesses is slowed down, and nobody elsewhere, nor who was
// let in from there before: a user is not locked out by others. The zero Backoff is ready; methods may be called
// from any goroutine. What it keeps is bounded; of more, those who failed longest
// ago are forgotten.
type Backoff struct {
	mu    sync.Mutex
	pairs map[mark]*strikes
	hosts map[netip.Addr]*strikes
	known map[mark]time.Time // pairs that were proved, and when last
}

// strikes are the failures of one.
type strikes struct {
	n     int
	until time.Time // no more before
	last  time.Time
}

// Bounds on the tables, of failures and of those who were let in.
const (
	maxStrikes = 1 << 14
	maxKnown   = 1 << 16
)

// hostOf is what counts as one address: of IPv6 the network of one customer.
func hostOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		n, _ := a.Prefix(64) // never fails
		return n.Addr()
	}
	return a
}

func pairOf(c *Credentials) mark { return markOf(hostOf(c.Remote).String(), c.User) }

// Blocked tells whether a log-in is put off, without a look at it.
func (b *Backoff) Blocked(c Credentials, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.User != "" && b.pairs[pairOf(&c)].blocks(now) {
		return true
	}
	return b.hosts[hostOf(c.Remote)].blocks(now) && !b.trusted(&c)
}

// trusted tells who is not put off for what others do at his address.
func (b *Backoff) trusted(c *Credentials) bool {
	if c.Password == "" && c.CRA == nil && (c.Certificate != nil || c.PSK != "") {
		return true
	}
	_, known := b.known[pairOf(c)]
	return known && c.User != ""
}

func (s *strikes) blocks(now time.Time) bool { return s != nil && now.Before(s.until) }

// Failed counts a failure.
func (b *Backoff) Failed(cfg BackoffConfig, c Credentials, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if host := hostOf(c.Remote); cfg.Address > 0 && host.IsValid() {
		b.hosts = strike(b.hosts, host, cfg.Address, cfg.Longest, now)
	}
	if c.User != "" && cfg.User > 0 {
		b.pairs = strike(b.pairs, pairOf(&c), cfg.User, cfg.Longest, now)
	}
}

// Passed forgets the failures under a name that was proved. Those of its address
// stay: one good name is no licence to guess others.
func (b *Backoff) Passed(c Credentials, now time.Time) {
	if c.User == "" {
		return
	}
	pair := pairOf(&c)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pairs, pair)
	if b.known == nil {
		b.known = map[mark]time.Time{}
	}
	if _, there := b.known[pair]; !there && len(b.known) >= maxKnown {
		forgetOne(b.known, func(at time.Time) time.Time { return at })
	}
	b.known[pair] = now
}

func strike[K comparable](table map[K]*strikes, key K, free int, longest time.Duration, now time.Time) map[K]*strikes {
	s := table[key]
	if s == nil || now.Sub(s.last) > 10*longest {
		if table == nil {
			table = map[K]*strikes{}
		}
		if s == nil && len(table) >= maxStrikes {
			forgetOne(table, func(s *strikes) time.Time { return s.last })
		}
		s = &strikes{}
		table[key] = s
	}
	s.n++
	s.last = now
	if over := s.n - free; over > 0 {
		s.until = now.Add(min(time.Second<<min(over-1, 20), longest))
	}
	return table
}

// forgetOne makes room: of some taken at random, the one that was there longest
// ago goes.
func forgetOne[K comparable, V any](table map[K]V, last func(V) time.Time) {
	var oldest K
	var at time.Time
	n := 0
	for k, v := range table {
		if n == 0 || last(v).Before(at) {
			oldest, at = k, last(v)
		}
		if n++; n == 16 {
			break
		}
	}
	delete(table, oldest)
}
