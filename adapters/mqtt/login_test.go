package mqtt

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"entrepot/core/auth"
)

// someUsers are ann and Jörg, whose passwords are "secret" and "geheim".
func someUsers(t *testing.T) *auth.Users {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	for name, password := range map[string]string{"ann": "secret", "Jörg": "geheim"} {
		if _, err := auth.ChangeUser(path, name, auth.Change{Password: password}); err != nil {
			t.Fatal(err)
		}
	}
	users, err := auth.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return users
}

// Who logs in (3.1.3.5, 3.1.3.6) and who is refused: return code 4 (3.1.1,
// 3.2.2.3) or reason code 0x86 (5, 3.2.2.2), the same for everybody.
func TestLogIn(t *testing.T) {
	users := someUsers(t)
	for _, c := range []struct {
		credentials string
		accepted    bool
	}{
		{"username=ann password=secret", true},
		{"username=Jörg password=geheim", true},
		{"username=ann password=geheim", false},
		{"username=ann password=Secret", false},
		{"username=Ann password=secret", false},
		{"username=nobody password=secret", false},
		{"username=ann", false},
		{"", false},
	} {
		for version := 3; version <= 5; version++ {
			synctest.Test(t, func(t *testing.T) {
				s := newTheatre(t, testConfig())
				s.version = version
				s.broker.SetDoor(auth.NewDoor(users))
				defer s.end()
				want := []string{"a< connack ...", "a> pingreq", "a< pingresp"}
				if !c.accepted {
					refusal := "code=04"
					if version == 5 {
						refusal = `code=86 reason="user name or password is wrong"`
					}
					want = []string{"a< connack " + refusal, "a< closed"}
				}
				for _, step := range append([]string{"a> connect id=a clean " + c.credentials}, want...) {
					if problem := s.step(step); problem != "" {
						t.Fatalf("%q, version %d: %s\n%s", c.credentials, version, step, problem)
					}
				}
				if n := s.broker.Stats().Sessions; n != 0 && !c.accepted {
					t.Errorf("%d sessions", n)
				}
			})
		}
	}
}

// A refused CONNECT does not count: the session and the connection of the client
// whose name it took stay, and its will is not sent.
// It shows fault 37.
func TestRefusedLogInHasNoEffect(t *testing.T) {
	users := someUsers(t)
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		s.broker.SetDoor(auth.NewDoor(users))
		defer s.end()
		for step := range strings.Lines(`a> connect id=a username=ann password=secret
			a< connack ...
			a> subscribe id=1 f=#
			a< suback id=1 codes=00
			b> connect id=a username=ann password=wrong will=w willpayload=x
			b< connack code=86 reason="user name or password is wrong"
			b< closed
			a< nothing
			a> pingreq
			a< pingresp`) {
			if problem := s.step(strings.TrimSpace(step)); problem != "" {
				t.Fatalf("%s%s", step, problem)
			}
		}
	})
}

// [MQTT-3.1.4-6] What comes in one go with a CONNECT whose password is wrong has no
// effect: no message, retained or not, and no subscription.
// It shows fault 37.
func TestNothingBehindARefusedLogIn(t *testing.T) {
	users := someUsers(t)
	synctest.Test(t, func(t *testing.T) {
		s := newTheatre(t, testConfig())
		s.broker.SetDoor(auth.NewDoor(users))
		defer s.end()
		const connect = "10 18 00 04 4d 51 54 54 05 c2 00 00 00 00 01 62 00 03 61 6e 6e 00 03 62 61 64"
		const publish, retain, subscribe = "30 06 00 01 74 00 78 78", "31 06 00 01 74 00 78 78", "82 08 00 01 00 00 02 74 31 00"
		for step := range strings.Lines(`a> connect id=a username=ann password=secret
			a< connack ...
			a> subscribe id=1 f=#
			a< suback id=1 codes=00
			b> hex ` + connect + " " + publish + " " + retain + " " + subscribe + `
			b< connack code=86 reason="user name or password is wrong"
			b< closed
			a< nothing
			a> subscribe id=2 f=t
			a< suback id=2 codes=00
			a< nothing`) {
			if problem := s.step(strings.TrimSpace(step)); problem != "" {
				t.Fatalf("%s%s", step, problem)
			}
		}
		if n := s.broker.Stats().Sessions; n != 1 {
			t.Errorf("%d sessions", n)
		}
	})
}

// Who published is told by its name only where that is proved.
// It shows fault 55.
func TestUserIsStamped(t *testing.T) {
	users := someUsers(t)
	for _, c := range []struct {
		users *auth.Users
		want  string
	}{{users, ` user=x-user:ann`}, {nil, ""}} {
		synctest.Test(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.OriginProperty = true
			s := newTheatre(t, cfg)
			if c.users != nil {
				s.broker.SetDoor(auth.NewDoor(c.users))
			}
			defer s.end()
			for step := range strings.Lines(`a> connect id=a username=ann password=secret
				a< connack ...
				a> subscribe id=1 f=t
				a< suback id=1 codes=00
				a> publish topic=t payload=x
				a< publish topic=t user="x-origin:mqtt a"` + c.want + ` payload=x`) {
				if problem := s.step(strings.TrimSpace(step)); problem != "" {
					t.Fatalf("%s%s", step, problem)
				}
			}
		})
	}
}
