package coap

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"entrepot/core/auth"
)

// asBob are a client's options with the key of bob.
func asBob() []dtls.ClientOption {
	return as("bob", strings.Repeat("\x01\x23\x45\x67\x89\xab\xcd\xef", 2))
}

// speaks makes a client known: it asks for something, and is answered.
func speaks(t *testing.T, c *dtls.Conn) {
	t.Helper()
	if p := exchangeOn(t, c, &outgoingPacket{kind: message.Confirmable, code: codes.GET, id: 1, options: options([]string{"t", "a"})}); p.code != codes.NotFound {
		t.Fatalf("%+v", p)
	}
}

// over waits until the broker ended an association.
func over(t *testing.T, c *dtls.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 100)); !errors.Is(err, io.EOF) {
		t.Fatalf("%d bytes, %v: want the end", n, err)
	}
}

// Where there is no room the client that was silent for longest makes some, in all
// and of one address, and others go on.
func TestDTLSMakesRoom(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"of all":         func(c *Config) { c.Limits.MaxConnections = 2 },
		"of one address": func(c *Config) { c.Limits.MaxPerPeer = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.DTLSQuiet = 0
			change(&cfg)
			s := newSecured(t, cfg)
			dead, alive := mustDial(t, s.at, asAnn()...), mustDial(t, s.at, asBob()...)
			speaks(t, dead)
			speaks(t, alive)
			if n := s.Kept()["associations"]; n != 2 {
				t.Errorf("%d associations", n)
			}
			late := mustDial(t, s.at, asAnn()...)
			speaks(t, late)
			over(t, dead)
			speaks(t, alive)
			if told := s.Told(); told["put_out"] != 1 || told["turned_away"] != 0 {
				t.Errorf("%v", told)
			}
			until(t, "its session is over", func() bool { return s.broker.Stats().Protocols[protocol].Connections == 2 })
		})
	}
}

// Who was heard a while ago is not put out; who never said anything is, after the
// time that a handshake may take.
func TestDTLSStrangersMakeRoom(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.MaxConnections, cfg.Limits.LoginTimeout = 2, 2*time.Second
	s := newSecured(t, cfg)
	alive, stranger := mustDial(t, s.at, asAnn()...), mustDial(t, s.at, asBob()...)
	speaks(t, alive)
	// Its ClientHello is sent again until there is room.
	late := mustDial(t, s.at, asAnn()...)
	speaks(t, late)
	over(t, stranger)
	speaks(t, alive)
	if told := s.Told(); told["put_out"] != 1 || told["turned_away"] == 0 || s.Refused()["max_connections"] != told["turned_away"] {
		t.Errorf("%v, %v", told, s.Refused())
	}
}

// A user that has as many connections as it may gets in when one of them is silent.
func TestDTLSUserMakesRoom(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DTLSQuiet = 0
	s := newSecured(t, cfg)
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("ann:* max-connections=1 psk=00112233445566778899aabbccddeeff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	s.broker.SetDoor(auth.NewDoor(users))
	dead := mustDial(t, s.at, asAnn()...)
	speaks(t, dead)
	speaks(t, mustDial(t, s.at, asAnn()...))
	over(t, dead)
}

// Handshakes wait for a place at the door, with those of other protocols; nothing
// that others send waits meanwhile. Two places are enough to show that each stage
// gives its own up.
// It shows fault 88.
func TestDTLSHandshakesWait(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.LoginTimeout = time.Minute
	s := newSecured(t, cfg)
	inside := mustDial(t, s.at, asAnn()...)
	speaks(t, inside)

	busy, err := s.streams.Admit(netip.MustParseAddr("192.0.2.1"), func(bool) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Leave()
	has := make(chan error, 1)
	busy.Begin(func(err error) { has <- err })
	if err := <-has; err != nil {
		t.Fatal(err)
	}
	const n = 5
	done := make(chan error, n)
	for range n {
		c, err := dtls.DialWithOptions("udp", s.at, asBob()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			done <- c.HandshakeContext(ctx)
		}()
	}
	until(t, "they wait", func() bool { return s.door.Waiting() == n })
	speaks(t, inside)
	if len(done) != 0 || s.secure[0].count() != n+1 {
		t.Errorf("%d are done, %d are known", len(done), s.secure[0].count())
	}
	busy.Rest()
	for range n {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	until(t, "nobody waits", func() bool { return s.door.Waiting() == 0 && s.door.Open() == n+2 })
}

// Those who wait for a place when the server ends are let go.
func TestDTLSShutdownWhileWaiting(t *testing.T) {
	s := newSecured(t, DefaultConfig())
	busy, err := s.streams.Admit(netip.MustParseAddr("192.0.2.1"), func(bool) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	busy.Begin(func(error) {})
	hello := capturedHello(t)
	for range 3 {
		begun(t, s.at, hello)
	}
	until(t, "they wait", func() bool { return s.door.Waiting() == 3 })
	busy.Leave()
	// newSecured's end is the rest of the test.
}

// [RFC 4279, 2] who guesses keys is put off as who guesses passwords is: under one
// identity, then everybody at the address; failures are counted.
// It shows fault 37.
func TestDTLSGuesses(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.LoginTimeout = time.Second
	s := newSecured(t, cfg)
	guess := func(o []dtls.ClientOption) bool {
		c, err := dtls.DialWithOptions("udp", s.at, o...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		return c.HandshakeContext(ctx) == nil
	}
	refused := func(why auth.Reason) uint64 { return s.broker.Stats().Protocols[protocol].RefusedLogins[string(why)] }
	if guess(as("ann", "0123456789abcdef")) {
		t.Error("a wrong key is taken")
	}
	until(t, "it is counted", func() bool { return refused(auth.BadKey) == 1 && s.Unopened()["psk"] == 1 })
	who := s.secure[0].credentials(netip.MustParseAddrPort("127.0.0.1:1"))
	who.User = "ann"
	for range 30 { // more, and a minute to wait
		s.broker.Unproved(who)
	}
	if guess(asAnn()) {
		t.Error("ann's key is taken after many failures")
	}
	until(t, "that is counted", func() bool { return refused(auth.TooMany) > 0 && s.Unopened()["psk"] == 2 })
	if n := refused(auth.BadKey); n != 31 {
		t.Errorf("%d failures; who is put off does not fail", n)
	}
	if !guess(asBob()) {
		t.Error("bob's key is not taken")
	}
	for range 100 {
		s.broker.Unproved(who)
	}
	if guess(asBob()) || s.Told()["put_off"] == 0 {
		t.Errorf("after many failures of an address: %v", s.Told())
	}
	if n := s.secure[0].count(); n > 1 {
		t.Errorf("%d associations", n)
	}
}

// Handshakes that do not come to an end are counted by why.
func TestDTLSUnopened(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Limits.LoginTimeout = 200 * time.Millisecond
	s := newSecured(t, cfg)
	begun(t, s.at, capturedHello(t))
	until(t, "the one who does not go on is counted", func() bool { return s.Unopened()["timeout"] == 1 })
	c, err := dtls.DialWithOptions("udp", s.at, dtls.WithCipherSuites(dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.HandshakeContext(ctx); err == nil {
		t.Error("a suite for certificates is spoken without one")
	}
	until(t, "the one who speaks otherwise is counted", func() bool { return s.Unopened()["negotiation"] == 1 })
}
