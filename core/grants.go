package core

import (
	"sync"
	"sync/atomic"
)

// maxGrants bounds the publish addresses whose permission a session remembers,
// maxGrant their length in bytes.
const (
	maxGrants = 256
	maxGrant  = 512
)

// grants remembers addresses that this session may publish to, or have answers
// sent to, so that the policy is not asked for every message. Emptied when
// full, and when the policy is another one.
type grants struct {
	last atomic.Pointer[granted] // one of ok: most messages go where the one before went

	mu     sync.Mutex
	ok     map[grant]*granted
	by     *ruling
	rights uint64 // how often the client's rights have changed
}

// grant is what is granted: to publish there, or to have answers sent there.
type grant struct {
	Address
	as use
}

// use is what an address is good for.
type use uint8

const (
	asTarget use = iota // to publish to
	asReply             // for whoever gets a message to answer to
	asAnswer            // for the broker to publish a call's answer to
)

// granted is a grant with the policy that gave it.
type granted struct {
	grant
	by *ruling
}

// has tells whether the grant was given by that policy; else it returns what add
// needs.
func (g *grants) has(by *ruling, what *grant) (had bool, rights uint64) {
	if last := g.last.Load(); last != nil && last.by == by && last.grant == *what {
		return true, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by != by {
		return false, g.rights
	}
	one := g.ok[*what]
	if one != nil {
		g.last.Store(one)
	}
	return one != nil, g.rights
}

// add remembers what that policy granted to a client of those rights.
func (g *grants) add(by *ruling, what grant, rights uint64) {
	if len(what.Exchange)+len(what.Topic.String()) > maxGrant {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rights != rights {
		return // the client's rights changed while the policy was asked
	}
	if g.ok == nil || g.by != by || len(g.ok) >= maxGrants {
		g.by, g.ok = by, map[grant]*granted{}
	}
	one := &granted{what, by}
	g.ok[what] = one
	g.last.Store(one)
}

// forget makes the session ask the policy again, for a client whose rights have
// changed by now.
func (g *grants) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rights++
	g.ok = nil
	g.last.Store(nil)
}
