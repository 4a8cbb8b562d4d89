package stomp

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core/auth/authtest"
)

// A token is the passcode, and the session ends with it; another user's name, or
// one that expired, lets nobody in [fault 49].
func TestTokens(t *testing.T) {
	const subscribe = "\n--- a sends\nSUBSCRIBE\nid:1\ndestination:/topic/a\nreceipt:r\n\n^@\n--- a gets receipt r"
	const expires = "\n--- wait 58s\n--- a gets nothing\n--- wait 3s\n--- a gets error the credentials have expired"
	const connected = "\n--- a gets\nCONNECTED\nversion:1.2\n...\n\n^@"
	for headers, then := range map[string]string{
		"login:ann\npasscode:ANN": connected + subscribe + expires,
		"passcode:ANN":            connected + subscribe + expires,
		"login:bob\npasscode:ANN": "\n--- a gets error access refused",
		"login:ann\npasscode:OLD": "\n--- a gets error access refused",
		"login:ann\npasscode:":    "\n--- a gets error access refused",
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
			tr.start()
			defer tr.end()
			tr.broker.SetDoor(authtest.TokenDoor(t))
			play := "\n--- a sends\nCONNECT\naccept-version:1.2\nhost:/\n" + headers + "\n\n^@" + then
			play = strings.NewReplacer("ANN", authtest.Token("ann", time.Minute), "OLD", authtest.Token("ann", -time.Second)).Replace(play)
			for _, step := range strings.Split(play, "\n--- ")[1:] {
				head, body, _ := strings.Cut(step, "\n")
				if !tr.step(head, body) || t.Failed() {
					t.Fatalf("%q: %s", headers, head)
				}
				synctest.Wait()
			}
		})
	}
}
