package mqtt

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core/auth/authtest"
)

// A token is brought by a method or as the password; a session ends with it, or
// goes on with another of the same user [fault 49].
func TestTokens(t *testing.T) {
	for name, play := range map[string]string{
		"[MQTT-4.12.0-1] [MQTT-4.12.0-5] by the method": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			a> pingreq
			a< pingresp`,
		"[MQTT-4.12.1-1] [MQTT-4.12.1-2] another token in time": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			wait 59s
			a> auth code=0x19 method=JWT data=LATER
			a< auth surplus=00061500034a5754
			wait 59s
			a> pingreq
			a< pingresp`,
		"[MQTT-4.12.1-2] a token of another user": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			a> auth code=0x19 method=JWT data=BOB
			a< disconnect code=87 ...
			a< closed`,
		"[MQTT-4.12.1-1] another method": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			a> auth code=0x19 method=SCRAM data=ANN
			a< disconnect code=82 ...
			a< closed`,
		"[MQTT-4.12.0-7] AUTH without a method at CONNECT": `a> connect id=a username=ann password=ANN
			a< connack ...
			a> auth code=0x19 method=JWT data=LATER
			a< disconnect code=82 ...
			a< closed`,
		"[MQTT-3.15.2-1] AUTH with 0x18": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			a> auth code=0x18 method=JWT data=ANN
			a< disconnect code=82 ...
			a< closed`,
		"[MQTT-4.12.0-4] no token": `a> connect id=a method=JWT
			a< connack code=86 ...
			a< closed`,
		"another user's name": `a> connect id=a username=bob method=JWT data=ANN
			a< connack code=86 ...
			a< closed`,
		"the token expires": `a> connect id=a password=ANN
			a< connack ...
			wait 61s
			a< disconnect code=87 reason="the credentials have expired"
			a< closed`,
		"the token of the method expires": `a> connect id=a method=JWT data=ANN
			a< connack method=JWT ...
			wait 61s
			a< disconnect code=87 reason="the credentials have expired"
			a< closed`,
		"[MQTT-4.12.1-2] a token that has expired": `a> connect id=a method=JWT data=ANN session=100 will=w willpayload=x
			a< connack method=JWT ...
			b> connect id=b password=BOB
			b< connack ...
			b> subscribe id=1 f=w
			b< suback id=1 codes=00
			a> auth code=0x19 method=JWT data=OLD
			a< disconnect code=87 reason="the token is not good for this session"
			a< closed
			b< publish topic=w payload=x`,
		"3.1.1, the token expires": `version 4
			a> connect id=a username=ann password=ANN
			a< connack
			wait 59s
			a> pingreq
			a< pingresp
			wait 2s
			a< closed`,
		"3.1.1, a token that has expired": `version 4
			a> connect id=a username=ann password=OLD
			a< connack code=04
			a< closed`,
		"3.1.1, another connects with a new one and has the session": `version 4
			a> connect id=a username=ann password=ANN
			a< connack ...
			a> subscribe id=1 f=t q=1
			a< suback id=1 codes=01
			wait 61s
			a< closed
			b> connect id=a password=OLD username=ann
			b< connack code=04
			b< closed
			c> connect id=a username=ann password=FRESH
			c< connack present
			c> pingreq
			c< pingresp`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newTheatre(t, testConfig())
			s.version = 5
			if rest, ok := strings.CutPrefix(play, "version 4\n"); ok {
				s.version, play = 4, rest
			}
			s.broker.SetDoor(authtest.TokenDoor(t))
			defer s.end()
			for step := range strings.Lines(play) {
				step = strings.NewReplacer("ANN", authtest.Token("ann", time.Minute), "BOB", authtest.Token("bob", time.Minute),
					"OLD", authtest.Token("ann", -time.Second), "FRESH", authtest.Token("ann", time.Minute), "LATER", authtest.Token("ann", 2*time.Minute)).Replace(strings.TrimSpace(step))
				if d, ok := strings.CutPrefix(step, "wait "); ok {
					lasts, _ := time.ParseDuration(d)
					time.Sleep(lasts)
					synctest.Wait()
					continue
				}
				if problem := s.step(step); problem != "" {
					t.Fatalf("%s: %s\n%s", name, step, problem)
				}
			}
		})
	}
}
