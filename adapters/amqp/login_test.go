package amqp

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
)

// [AMQP-1.4.2.2] [fault 37] EXTERNAL is not known where no certificate came.
func TestExternalWithoutACertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, DefaultConfig())
		defer s.end()
		cfg := auth.DefaultConfig()
		cfg.Certificate.User = "{cn}"
		door, err := cfg.Door()
		if err != nil {
			t.Fatal(err)
		}
		s.broker.SetDoor(door)
		for _, line := range []string{"a> header", `a< connection.start version-minor=9 server-properties=* mechanisms="PLAIN AMQPLAIN" locales=en_US`,
			"a> connection.start-ok client-properties={capabilities:{authentication_failure_close:true}} mechanism=EXTERNAL locale=en_US",
			"a< connection.close reply-code=503 ..."} {
			if err := s.line(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	})
}

// [AMQP-1.4.2.7] the virtual host chooses the realm, and each realm lets in
// whom it knows.
func TestRealms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, DefaultConfig())
		defer s.end()
		log := slog.New(slog.DiscardHandler)
		other := core.NewBroker(core.DefaultConfig(), "other", local.New(log), nil, log)
		locked := core.NewBroker(core.DefaultConfig(), "locked", local.New(log), nil, log)
		defer other.Close()
		defer locked.Close()
		s.server = New(s.cfg, core.NewRealms(s.broker, other, locked), log)
		if err := s.welcome("ann secret"); err != nil {
			t.Fatal(err)
		}
		open := s.broker
		s.broker = locked
		if err := s.welcome("ann another"); err != nil {
			t.Fatal(err)
		}
		s.broker = open
		for _, c := range []struct{ line, want string }{
			{"a> connect user=ann password=secret", ""},
			{"a> queue.declare queue=q", ""},
			{"a< queue.declare-ok queue=q", ""},
			{"b> connect user=ann password=secret vhost=other", ""},
			{"b> queue.declare queue=q passive", ""},
			{`b< channel.close reply-code=404 reply-text="NOT_FOUND - no queue 'q' in vhost 'other'" class-id=50 method-id=10`, ""},
			{"c> connect user=ann password=secret vhost=locked", `got connection.close reply-code=530 reply-text="NOT_ALLOWED - access to vhost 'locked' refused for user 'ann'" class-id=10 method-id=40`},
		} {
			err := s.line(c.line)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !endsWith(err, c.want)) {
				t.Fatalf("%s: %v", c.line, err)
			}
		}
	})
}

func endsWith(err error, text string) bool {
	for err != nil {
		if err.Error() == text {
			return true
		}
		err = errors.Unwrap(err)
	}
	return false
}

// [AMQP-2.2.4] [fault 37] What a client sends in one go with a log-in that is refused
// has no effect.
func TestNothingBehindARefusedLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, DefaultConfig())
		defer s.end()
		if err := s.welcome("ann secret"); err != nil {
			t.Fatal(err)
		}
		all := []byte(frame.ProtocolHeader)
		for _, line := range []string{
			`connection.start-ok client-properties={capabilities:{authentication_failure_close:true}} mechanism=PLAIN response="\x00ann\x00wrong" locale=en_US`,
			"connection.tune-ok channel-max=2047 frame-max=4096", "connection.open virtual-host=/", "channel.open ch=1",
			"queue.declare queue=q", "basic.publish routing-key=q body=x",
			`connection.start-ok mechanism=PLAIN response="\x00ann\x00secret" locale=en_US`,
		} {
			m, err := parseMessage(line)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m.encode(frame.MinMax)...)
		}
		s.client("a").write(all, false)
		for _, line := range []string{"a< connection.start ...", "a< connection.close reply-code=403 ...", "a< closed"} {
			if err := s.line(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if st := s.broker.Stats(); st.Engine.Queues != 0 || st.Protocols[protocol].Connections != 0 {
			t.Errorf("%+v, %+v", st.Engine, st.Protocols)
		}
	})
}
