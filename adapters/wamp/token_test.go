package wamp

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core/auth/authtest"

	"entrepot/core"
)

// A token is the ticket. When it expires a GOODBYE says so; another user's, and one
// that expired, lets nobody in [fault 49].
func TestTokens(t *testing.T) {
	const ann = `a > [1,"realm1",{"roles":{"caller":{}},"authid":"ann","authmethods":["ticket"]}]
		a < [4,"ticket",{}]
		`
	const wrong = `
		a < [3,{"message":"*"},"wamp.error.authentication_failed"]
		a < closed 1008`
	const welcome = `
		a < [2,"*",{"authid":"ann","authmethod":"ticket","...":1}]
		wait 58s
		a forgets
		wait 3s
		a < [6,{"message":"the credentials have expired"},"wamp.close.close_realm"]
		a < closed 1008`
	for name, play := range map[string]string{
		"it expires":  ann + `a > [5,"ANN",{}]` + welcome,
		"no authid":   strings.Replace(ann, `"authid":"ann",`, "", 1) + `a > [5,"ANN",{}]` + welcome,
		"another's":   ann + `a > [5,"BOB",{}]` + wrong,
		"it expired":  ann + `a > [5,"OLD",{}]` + wrong,
		"none at all": ann + `a > [5,"",{}]` + wrong,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := staged(t)
				defer s.end()
				s.broker.SetDoor(authtest.TokenDoor(t))
				words := strings.NewReplacer("ANN", authtest.Token("ann", time.Minute), "BOB", authtest.Token("bob", time.Minute),
					"OLD", authtest.Token("ann", -time.Second))
				s.connect("a")
				for line := range strings.Lines(play) {
					if err := s.step(words.Replace(strings.TrimSpace(line))); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				}
			})
		})
	}
}

// staged is a transcript whose lines are in the test, in JSON.
func staged(t *testing.T, users ...string) *transcript {
	e, _ := encodingOf("wamp.2.json")
	s := &transcript{t: t, e: e, clients: map[string]*pipeClient{}, vars: map[string]any{}, users: users}
	s.start(DefaultConfig(), core.DefaultConfig())
	return s
}

// What a client sends in one go with a log-in that is refused has no effect
// [fault 37].
func TestNothingBehindARefusedLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := staged(t, "ann secret")
		defer s.end()
		s.connect("ann")
		for _, line := range []string{
			`ann > [1,"realm1",{"roles":{"subscriber":{}},"authid":"ann","authmethods":["ticket"]}]`, `ann < [4,"ticket",{}]`,
			`ann > [5,"secret",{}]`, `ann < [2,"*",{"...":1}]`, `ann > [32,1,{},"t"]`, `ann < [33,1,"*"]`,
		} {
			if err := s.step(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		c := s.connect("a")
		var all bytes.Buffer
		for _, m := range []string{
			`[1,"realm1",{"roles":{"publisher":{}},"authid":"ann","authmethods":["ticket"]}]`, `[5,"wrong",{}]`,
			`[16,1,{"acknowledge":true,"retain":true},"t",["x"]]`, `[64,2,{},"proc"]`, `[5,"secret",{}]`,
		} {
			all.Write(clientFrame(0x81, []byte(m)))
		}
		// The broker closes before it has read all.
		_, _ = c.conn.Write(all.Bytes())
		for _, line := range []string{`a < [4,"ticket",{}]`, `a < [3,{"message":"*"},"wamp.error.authentication_failed"]`, "a < closed 1008", "ann < nothing"} {
			if err := s.step(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		if n := s.broker.Stats().Protocols[protocol].Connections; n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}
