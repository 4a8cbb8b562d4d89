package e2e

import (
	"slices"
	"strings"
	"testing"

	rights "entrepot/core/auth"
)

// matrixProtocols are the protocols of the table.
func matrixProtocols() []string { return []string{"mqtt3", "mqtt5", "stomp", "amqp", "wamp", "coap"} }

// sideDoors are the ways to do something other than at once and in one's own
// name; "other" is a name that looks like the rule's and is not, "wide" a
// filter of which a part is denied.
func sideDoors() []string {
	return []string{"will", "retained", "cleared", "replay", "lastvalue", "delay", "deadletter", "reply", "alternate",
		"binding", "copies", "testament", "group", "transaction", "passive", "listing", "other", "wide"}
}

// spellings are how a protocol's clients write addresses; each is in the table.
func spellings() map[string][]string {
	return map[string][]string{
		"mqtt3": {" a/b ", "$queue/", "$exchange/x/", "$exchange/amq.topic/", "$share/", "$rpc/", "$delayed/"},
		"mqtt5": {" a/b ", "$queue/", "$exchange/x/", "$exchange/amq.topic/", "$share/", "$rpc/", "$delayed/"},
		"stomp": {"/topic/a.b", "/topic/a/b", "/queue/", "/amq/queue/", "/exchange/x", "/exchange/amq.topic/", "/rpc/", "/reply-queue/", "/temp-queue/"},
		"amqp":  {"amq.topic", "pub - ", "pub x ", "pub rpc "},
		"wamp":  {" a.b ", "$queue.", "$exchange.x.", "$exchange.amq%2Etopic.", "match=prefix", "match=wildcard", " dev."},
		"coap":  {"/t/a/b", "/t?filter=", "/q/", "/x/x/", "/x/amq.topic/", "/rpc/", "/ps/", "/.well-known/core"},
	}
}

// everyWayHasARow fails where a protocol, an action and what it is done to, or a
// protocol and a side door, have neither a row nor a reason why there is none.
func everyWayHasARow(t *testing.T, rows []*matrixRow, none map[absent]string) {
	t.Helper()
	wanted := sideDoors()
	for kind, noun := range []string{rights.Topic: "topic", rights.Queue: "queue", rights.Exchange: "exchange", rights.Procedure: "procedure"} {
		for _, a := range rights.ObjectKind(kind).Actions() {
			wanted = append(wanted, a.String()+" "+noun)
		}
	}
	there := map[absent]bool{}
	for _, r := range rows {
		noun := [...]string{rights.Topic: "topic", rights.Queue: "queue", rights.Exchange: "exchange", rights.Procedure: "procedure"}[r.kind()]
		for _, door := range r.doors {
			if door == "live" {
				there[absent{r.protocol, r.action + " " + noun}] = true
			} else if !slices.Contains(sideDoors(), door) {
				t.Errorf("%s: no door %q", r, door)
			}
			there[absent{r.protocol, door}] = true
		}
	}
	for _, p := range matrixProtocols() {
		for _, what := range wanted {
			key := absent{p, what}
			switch reason, said := none[key]; {
			case there[key] && said:
				t.Errorf("%s, %s: there are rows, and a reason why there are none", p, what)
			case !there[key] && len(reason) < 10:
				t.Errorf("%s, %s: no row, and no reason why there is none", p, what)
			}
			delete(none, key)
		}
		everySpellingHasARow(t, p, rows)
	}
	for key := range none {
		t.Errorf("%s, %q: a reason for what is not asked for", key.protocol, key.what)
	}
}

func everySpellingHasARow(t *testing.T, protocol string, rows []*matrixRow) {
	t.Helper()
	if len(spellings()[protocol]) == 0 {
		t.Errorf("%s: no spellings", protocol)
	}
	for _, s := range spellings()[protocol] {
		if !slices.ContainsFunc(rows, func(r *matrixRow) bool {
			return r.protocol == protocol && strings.Contains(strings.Join(r.does, ";")+" ", s)
		}) {
			t.Errorf("%s: no row with %q", protocol, s)
		}
	}
}
