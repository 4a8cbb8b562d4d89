package auth

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func from(address, user string) Credentials {
	a, _ := netip.ParseAddr(address)
	return Credentials{Remote: a, User: user}
}

// Who guesses is put off, longer each time; the user from elsewhere, and others
// from there, are not.
func TestBackoffOfAName(t *testing.T) {
	var b Backoff
	cfg := BackoffConfig{User: 3, Address: 100, Longest: 10 * time.Second}
	now := time.Now()
	fail := func(n int) {
		for range n {
			b.Failed(cfg, from("192.0.2.1", "ann"), now)
		}
	}
	fail(3)
	if b.Blocked(from("192.0.2.1", "ann"), now) {
		t.Error("put off too early")
	}
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		fail(1)
		if !b.Blocked(from("192.0.2.1", "ann"), now.Add(wait-1)) || b.Blocked(from("192.0.2.1", "ann"), now.Add(wait)) {
			t.Errorf("not put off for %v", wait)
		}
	}
	for _, c := range []Credentials{from("192.0.2.1", "bob"), from("192.0.2.2", "ann"), from("", "ann"), from("192.0.2.1", "")} {
		if b.Blocked(c, now) {
			t.Errorf("%+v is put off", c)
		}
	}
	b.Passed(from("192.0.2.1", "ann"), now)
	if b.Blocked(from("192.0.2.1", "ann"), now) {
		t.Error("put off after a success")
	}
	fail(4)
	now = now.Add(101 * time.Second)
	fail(1)
	if b.Blocked(from("192.0.2.1", "ann"), now) {
		t.Error("nothing was forgotten")
	}
}

func TestBackoffOfAnAddress(t *testing.T) {
	var b Backoff
	cfg := BackoffConfig{User: 100, Address: 5, Longest: time.Minute}
	now := time.Now()
	for i := range 6 {
		b.Failed(cfg, from(fmt.Sprintf("2001:db8::%d", i+1), fmt.Sprint("user", i)), now)
		b.Failed(cfg, from("", "ann"), now) // a unix socket is no address
		b.Passed(from("2001:db8::1", "mine"), now)
	}
	for c, want := range map[string]bool{"2001:db8::ffff": true, "2001:db8:0:1::1": false, "192.0.2.1": false, "": false} {
		if b.Blocked(from(c, "new"), now) != want {
			t.Errorf("%s: %v", c, !want)
		}
	}
	off := BackoffConfig{Longest: time.Minute}
	for range 1000 {
		b.Failed(off, from("192.0.2.9", "ann"), now)
	}
	if b.Blocked(from("192.0.2.9", "ann"), now) {
		t.Error("0 is a limit")
	}
}

// Who was let in from an address before, or guesses nothing, is not locked out by
// others who guess there; who guesses under such a name is put off by that.
func TestBackoffLocksNobodyElseOut(t *testing.T) {
	var b Backoff
	cfg := BackoffConfig{User: 3, Address: 5, Longest: time.Minute}
	now := time.Now()
	ann, bob := from("192.0.2.1", "ann"), from("192.0.2.1", "bob")
	b.Passed(ann, now)
	for i := range 10 {
		b.Failed(cfg, from("192.0.2.1", fmt.Sprint("user", i)), now)
	}
	certified, keyed := from("192.0.2.1", ""), from("192.0.2.1", "dev")
	certified.Certificate, keyed.PSK = &x509.Certificate{}, "dev"
	guessing := certified
	guessing.User, guessing.Password = "root", "1234"
	for _, c := range []struct {
		who  Credentials
		want bool
	}{{ann, false}, {bob, true}, {from("192.0.2.1", ""), true}, {certified, false}, {keyed, false}, {guessing, true}} {
		if b.Blocked(c.who, now) != c.want {
			t.Errorf("%v: %v", c.who, !c.want)
		}
	}
	for range 4 {
		b.Failed(cfg, ann, now)
	}
	if !b.Blocked(ann, now) {
		t.Error("who guesses a known name is not put off")
	}
	for i := range maxKnown + 10 {
		b.Passed(from("192.0.2.9", fmt.Sprint(i)), now)
	}
	if len(b.known) > maxKnown {
		t.Errorf("%d names are kept", len(b.known))
	}
}

// A flood of names and addresses costs a bounded table, and forgets those who
// are still at it last.
func TestBackoffIsBounded(t *testing.T) {
	var b Backoff
	cfg := BackoffConfig{User: 3, Address: 3, Longest: time.Minute}
	now := time.Now()
	for i := range 3 * maxStrikes {
		now = now.Add(time.Microsecond)
		at := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		b.Failed(cfg, Credentials{Remote: at, User: fmt.Sprint(i)}, now)
		b.Failed(cfg, from("192.0.2.1", "ann"), now)
	}
	if len(b.pairs) > maxStrikes || len(b.hosts) > maxStrikes {
		t.Error(len(b.pairs), len(b.hosts))
	}
	if !b.Blocked(from("192.0.2.1", "ann"), now) {
		t.Error("who is still at it is forgotten")
	}
}
