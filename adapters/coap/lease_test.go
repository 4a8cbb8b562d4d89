package coap

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// What is on lease is bounded, in all and for one client, by number and by bytes.
// The one who has too much is told 4.29 (RFC 8516), all others 5.03, with the time
// to come again; nothing is lost, and what ends makes room.
func TestLeasesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(*Config)
		near, far  int // that each may have
		nearRefuse codes.Code
		farRefuse  codes.Code
	}{
		"one client, by number": {func(c *Config) { c.MaxPeerLeases = 2 }, 2, 2, codes.TooManyRequests, codes.TooManyRequests},
		"one client, by bytes":  {func(c *Config) { c.MaxPeerLeaseBytes = 3500 }, 3, 3, codes.TooManyRequests, codes.TooManyRequests},
		"all, by number":        {func(c *Config) { c.MaxLeases, c.MaxPeerLeases = 3, 2 }, 2, 1, codes.TooManyRequests, codes.ServiceUnavailable},
		"all, by bytes":         {func(c *Config) { c.MaxLeaseBytes = 1024 }, 1, 0, codes.ServiceUnavailable, codes.ServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := DefaultConfig()
				cfg.Echo = false
				c.change(&cfg)
				s := newScene(t, cfg)
				defer s.end()
				id := uint16(0)
				ask := func(who string, code codes.Code, path ...string) packet {
					t.Helper()
					id++
					payload := ""
					if len(path) == 2 {
						payload = string(make([]byte, 1000))
					}
					cl := s.client(who)
					got := cl.ask(cl.request(message.Confirmable, code, id, path, payload))
					if len(got) != 1 {
						t.Fatalf("%s, %v: %+v", who, path, got)
					}
					return got[0]
				}
				const n = 10
				for range n {
					ask("a", codes.POST, "q", "work")
				}
				var leases []string
				take := func(who string, want int, refusal codes.Code) {
					t.Helper()
					for i := range want + 1 {
						p := ask(who, codes.POST, "q", "work", "take")
						switch {
						case i < want && p.code == codes.Created:
							leases = append(leases, leaseOf(p))
						case i < want || p.code != refusal || p.options[0].ID != message.MaxAge:
							t.Errorf("%s, take %d: %+v", who, i, p)
						}
					}
				}
				take("a", c.near, c.nearRefuse)
				take("far1", c.far, c.farRefuse)
				// Another port of the same address is the same client.
				take("far2", 0, c.farRefuse)
				if kept := s.server.Kept(); kept["leases"] != uint64(len(leases)) || kept["lease_bytes"] != uint64(1000*len(leases)) {
					t.Errorf("%v with %d leases", kept, len(leases))
				}
				if told := s.server.Told()["lease_refused"]; told != 3 {
					t.Errorf("%d refusals counted", told)
				}
				if p := ask("a", codes.DELETE, "q", "work", "lease", leases[0]); p.code != codes.Deleted {
					t.Errorf("%+v", p)
				}
				take("a", 1, c.nearRefuse)
				time.Sleep(2 * cfg.Lease)
				if kept := s.server.Kept(); kept["leases"]+kept["lease_bytes"] != 0 || len(s.server.leases.holders) != 0 {
					t.Errorf("%v after all leases have ended", kept)
				}
				var done int
				for p := ask("a", codes.POST, "q", "work", "take"); p.code == codes.Created; p = ask("a", codes.POST, "q", "work", "take") {
					ask("a", codes.DELETE, "q", "work", "lease", leaseOf(p))
					done++
				}
				if done != n-1 {
					t.Errorf("%d messages were there, want %d", done, n-1)
				}
			})
		})
	}
}

// leaseOf is the id in the answer to a take.
func leaseOf(p packet) string {
	id := ""
	for _, o := range p.options {
		if o.ID == message.LocationPath {
			id = string(o.Value)
		}
	}
	return id
}

// One message may always be out, however large.
func TestOneLargeLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.MaxLeaseBytes, cfg.MaxPeerLeaseBytes = 1024, 1024
		s := newScene(t, cfg)
		defer s.end()
		w := newWire(s.server)
		defer w.close()
		w.write(framed(csm(1 << 20)))
		w.write(framed(&outgoingPacket{code: codes.POST, options: options([]string{"q", "work"}), payload: make([]byte, 5000)}))
		w.got(t)
		w.write(framed(&outgoingPacket{code: codes.POST, options: options([]string{"q", "work", "take"})}))
		if got := w.got(t); len(got) != 1 || got[0].code != codes.Created || len(got[0].payload) != 5000 {
			t.Errorf("%+v", got)
		}
	})
}
