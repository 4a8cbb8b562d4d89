package coap

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// scene of a crowd: names are an address's letter and a number.
type gathering struct {
	*crowd
	now time.Time
	all map[string]*association
}

func newGathering() *gathering {
	return &gathering{crowd: newCrowd(10*time.Second, time.Minute), now: time.Unix(1_000_000, 0), all: map[string]*association{}}
}

func peerNamed(letter byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, letter}) }

func (g *gathering) enters(names ...string) {
	for _, name := range names {
		a := &association{}
		g.all[name] = a
		g.enter(a, peerNamed(name[0]), g.now)
	}
}

func (g *gathering) known(user string, names ...string) {
	g.enters(names...)
	for _, name := range names {
		g.know(g.all[name], user, g.now)
	}
}

// out is who makes room for an address.
func (g *gathering) out(letter byte, own bool) string {
	return g.named(g.makeRoom(peerNamed(letter), own, g.now))
}

func (g *gathering) named(a *association) string {
	for name, x := range g.all {
		if x == a {
			delete(g.all, name)
			return name
		}
	}
	return ""
}

// Who makes room: strangers first, those of the address that has most of them;
// then who was silent for longest, and nobody who was heard a while ago. An address
// with many puts out its own.
// It shows fault 32.
func TestWhoMakesRoom(t *testing.T) {
	for _, c := range []struct {
		title string
		crowd func(*gathering)
		own   bool
		want  []string // for newcomers from n, one after the other
	}{
		{"nobody is there", func(*gathering) {}, false, []string{""}},
		{"all were heard", func(g *gathering) { g.known("u", "a1", "b1") }, false, []string{""}},
		{"the longest silent", func(g *gathering) {
			g.known("u", "a1", "b1", "c1")
			g.now = g.now.Add(time.Hour)
			g.heard(g.all["a1"], g.now)
			g.now = g.now.Add(time.Minute)
		}, false, []string{"b1", "c1", "a1", ""}},
		{"an observer that acknowledges stays", func(g *gathering) {
			g.known("u", "a1", "b1")
			for range 60 {
				g.now = g.now.Add(time.Minute)
				g.heard(g.all["a1"], g.now)
			}
		}, false, []string{"b1", ""}},
		{"strangers before known", func(g *gathering) {
			g.known("u", "a1")
			g.enters("b1", "c1")
			g.now = g.now.Add(time.Hour)
		}, false, []string{"b1", "c1", "a1", ""}},
		{"strangers have a while", func(g *gathering) {
			g.known("u", "a1")
			g.now = g.now.Add(time.Hour)
			g.enters("b1", "c1")
		}, false, []string{"a1", ""}},
		{"a flood from one address", func(g *gathering) {
			g.known("u", "a1")
			g.now = g.now.Add(30 * time.Second)
			g.enters("b1", "b2", "b3", "c1", "c2")
		}, false, []string{"b1", "c1", "b2", ""}},
		{"the flood itself", func(g *gathering) {
			g.known("u", "a1")
			g.enters("n1", "n2", "n3", "b1")
		}, false, []string{""}},
		{"an address at its limit makes room among its own", func(g *gathering) {
			g.known("u", "a1", "n1", "n2")
			g.enters("b1")
			g.now = g.now.Add(time.Hour)
			g.heard(g.all["n1"], g.now)
		}, true, []string{"n2", ""}},
		{"own strangers", func(g *gathering) {
			g.enters("b1", "n1", "n2")
			g.now = g.now.Add(10 * time.Second)
			g.enters("n3")
		}, true, []string{"n1", "n2", ""}},
		{"who has more than its share puts out its own", func(g *gathering) {
			g.known("u", "a1", "b1", "c1", "n1", "n2", "n3")
			g.now = g.now.Add(time.Hour)
			g.heard(g.all["n2"], g.now)
			g.heard(g.all["n3"], g.now)
		}, false, []string{"n1", ""}},
	} {
		t.Run(c.title, func(t *testing.T) {
			g := newGathering()
			c.crowd(g)
			for i, want := range c.want {
				if got := g.out('n', c.own); got != want {
					t.Errorf("%d: %q, want %q", i, got, want)
				}
			}
		})
	}
}

// A user with as many as it may have makes room among its own.
func TestUserMakesRoom(t *testing.T) {
	g := newGathering()
	g.known("ann", "a1", "b1")
	g.known("bob", "a2")
	g.known("", "a3")
	g.now = g.now.Add(time.Hour)
	g.heard(g.all["a1"], g.now)
	for i, want := range []string{"b1", ""} {
		if got := g.named(g.makeRoomOf("ann", g.now)); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	if a := g.makeRoomOf("", g.now); a != nil {
		t.Error("clients without a name made room for each other")
	}
}

// Whatever comes and goes, the lists agree with a look at everybody.
func TestCrowdAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	g := newGathering()
	for i := range 20_000 {
		g.now = g.now.Add(time.Duration(r.IntN(3)) * time.Second)
		names := make([]string, 0, len(g.all))
		for name := range g.all {
			names = append(names, name)
		}
		slices.Sort(names)
		one := func() *association { return g.all[names[r.IntN(len(names))]] }
		switch n := r.IntN(10); {
		case n < 3 && len(names) < 100 || len(names) == 0:
			g.enters(fmt.Sprintf("%c%d", 'a'+rune(r.IntN(6)), i))
		case n < 5:
			g.know(one(), string('u'+rune(r.IntN(3))), g.now)
		case n < 8:
			g.heard(one(), g.now)
		case n == 8:
			a := one()
			g.leave(a)
			g.leave(a)
			g.named(a)
		default:
			g.check(t)
			g.out(byte('a'+r.IntN(7)), r.IntN(3) == 0)
		}
	}
	for _, a := range g.all {
		g.leave(a)
	}
	if g.size()+len(g.hosts)+len(g.users)+len(g.ranks)+g.top != 0 {
		t.Errorf("left behind: %d, %d, %d, %d, %d", g.size(), len(g.hosts), len(g.users), len(g.ranks), g.top)
	}
}

// check compares with the long way.
func (g *gathering) check(t *testing.T) {
	t.Helper()
	strangers, most, longest := map[netip.Addr]int{}, 0, g.now
	for _, a := range g.all {
		if a.seat.known && a.seat.since.Before(longest) {
			longest = a.seat.since
		}
		if !a.seat.known {
			strangers[a.seat.host.peer]++
			most = max(most, strangers[a.seat.host.peer])
		}
	}
	if g.top != most {
		t.Fatalf("%d strangers of one address at most, the crowd says %d", most, g.top)
	}
	if e := g.crowd.known.Front(); e != nil && !e.Value.(*association).seat.since.Equal(longest) {
		t.Fatalf("silent since %v, the crowd says %v", longest, e.Value.(*association).seat.since)
	}
	for peer, h := range g.hosts {
		if h.strangers.Len() != strangers[peer] || h.rank != strangers[peer] || h.size() == 0 {
			t.Fatalf("%v: %d, %d, want %d", peer, h.strangers.Len(), h.rank, strangers[peer])
		}
	}
	if len(g.all) != g.size() {
		t.Fatalf("%d, want %d", g.size(), len(g.all))
	}
}
