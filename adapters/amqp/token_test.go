package amqp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core/auth/authtest"
)

// A token is the password of PLAIN; the connection ends with it, or goes on with
// another of the same user's [fault 49] [RabbitMQ-update-secret].
func TestTokens(t *testing.T) {
	const in = "a> connect user=ann password=ANN\n"
	const refused = `a< connection.close reply-code=530 reply-text="NOT_ALLOWED - New secret was refused by one of the backends" class-id=10 method-id=70`
	for name, play := range map[string]string{
		"[fault 49] the token expires": in + `wait 59s
			a< nothing
			wait 2s
			a< connection.close reply-code=320 reply-text="CONNECTION_FORCED - the credentials have expired"`,
		"any user name that is not the token's": `a> header
			a< connection.start ...
			a> connection.start-ok client-properties={capabilities:{authentication_failure_close:true}} mechanism=PLAIN response="\x00bob\x00ANN" locale=en_US
			a< connection.close reply-code=403 ...`,
		"without a user name": `a> connect user= password=ANN
			a> basic.publish routing-key=q user-id=ann body=x
			a> queue.declare queue=q
			a< queue.declare-ok queue=q`,
		"[fault 49] another token in time": in + `wait 59s
			a> connection.update-secret new-secret=LATER reason=renewal
			a< connection.update-secret-ok
			wait 59s
			a< nothing
			wait 3s
			a< connection.close reply-code=320 ...`,
		"[fault 49] another user's token": in + "a> connection.update-secret new-secret=BOB reason=renewal\n" + refused,
		"[fault 49] a token that expired": in + "a> connection.update-secret new-secret=OLD reason=renewal\n" + refused,
		"[fault 49] no token":             in + "a> connection.update-secret new-secret=\"\" reason=renewal\n" + refused,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTheatre(t, DefaultConfig())
				defer s.end()
				s.broker.SetDoor(authtest.TokenDoor(t))
				words := strings.NewReplacer("ANN", authtest.Token("ann", time.Minute), "BOB", authtest.Token("bob", time.Minute),
					"OLD", authtest.Token("ann", -time.Second), "LATER", authtest.Token("ann", 2*time.Minute))
				for line := range strings.Lines(play) {
					if err := s.line(words.Replace(strings.TrimSpace(line))); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
				}
			})
		})
	}
}
