package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// wampActor is a WAMP client of a scenario. Every pair "name=value" of a line is
// an option of the message.
type wampActor struct {
	name   string
	dial   func(sub string) net.Conn
	client *wampClient
}

func (a *wampActor) inbox() *inbox { return a.client.inbox }

// do carries out a verb.
func (a *wampActor) do(verb string, words []word) error {
	c := a.client
	switch {
	case verb == "connect":
		return a.connect(words)
	case c.conn == nil:
		return fmt.Errorf("%s is not connected", a.name)
	case verb == "drop":
		return c.conn.Close()
	case verb == "disconnect":
		return c.send(wampGoodbye, map[string]any{}, "wamp.close.close_realm")
	case len(words) == 0:
		return fmt.Errorf("%s what?", verb)
	}
	first, o := words[0].text, readOptions(words[1:], "=")
	args, options, err := readArguments(&o)
	if err != nil {
		return err
	}
	switch verb {
	case "sub":
		return c.send(wampSubscribe, c.request(first), options, first)
	case "unsub":
		return c.send(wampUnsubscribe, c.request(first), c.subsBy[first])
	case "register":
		return c.send(wampRegister, c.request(first), options, first)
	case "unregister":
		return c.send(wampUnregister, c.request(first), c.regsBy[first])
	case "pub":
		return c.send(wampPublish, c.request(first), options, first, args)
	case "call":
		c.calls[first] = c.request(first)
		return c.send(wampCall, c.calls[first], options, first, args)
	case "cancel":
		return c.send(wampCancel, c.calls[first], options)
	case "yield", "error":
		return a.answer(verb, first, o, args, options)
	}
	return fmt.Errorf("no verb %q for WAMP", verb)
}

// connect opens a session; with login= and password= by a ticket.
func (a *wampActor) connect(words []word) error {
	o := readOptions(words, "=")
	login, password := o.pop("login", ""), o.pop("password", "")
	if err := o.done(); err != nil {
		return err
	}
	a.client.conn = a.dial("wamp.2.json")
	go a.client.listen(a.client.conn)
	role := map[string]any{"features": map[string]any{"call_canceling": true, "progressive_call_results": true}}
	details := map[string]any{"x_client_id": a.name,
		"roles": map[string]any{"publisher": role, "subscriber": role, "caller": role, "callee": role}}
	if login != "" {
		details["authid"], details["authmethods"] = login, []string{"ticket"}
	}
	if err := a.client.send(wampHello, "realm1", details); err != nil || login == "" {
		return err
	}
	return a.client.send(wampAuthenticate, password, map[string]any{})
}

// answer ends the invocation of message #N.
func (a *wampActor) answer(verb, number string, o options, args []any, options map[string]any) error {
	n, err := strconv.Atoi(strings.TrimPrefix(number, "#"))
	if err != nil {
		return err
	}
	e, err := a.client.message(n)
	if err != nil {
		return err
	}
	if verb == "yield" {
		return a.client.send(wampYield, e.wamp.id, options, args)
	}
	if len(o.plain) != 1 {
		return fmt.Errorf("an error has a URI")
	}
	return a.client.send(wampError, wampInvocation, e.wamp.id, options, o.plain[0], args)
}

// readArguments takes args=JSON or the payload as arguments, and other pairs as
// options.
func readArguments(o *options) (args []any, opts map[string]any, err error) {
	args, opts = []any{o.payload}, map[string]any{}
	if text := o.pop("args", ""); text != "" {
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return nil, nil, fmt.Errorf("args: %w", err)
		}
	}
	for _, p := range o.pairs {
		var v any
		if json.Unmarshal([]byte(p[1]), &v) != nil {
			v = p[1]
		}
		opts[p[0]] = v
	}
	return args, opts, nil
}

// plainSuccess tells whether an event only says that a verb did what everybody
// expects; scripts do not show it.
func (a *wampActor) plainSuccess(verb string, e event) bool {
	if e.wamp == nil {
		return e.end == "closed" && verb == "drop"
	}
	switch verb {
	case "connect":
		return e.wamp.kind == wampWelcome
	case "sub":
		return e.wamp.kind == wampSubscribed
	case "unsub":
		return e.wamp.kind == wampUnsubscribed
	case "register":
		return e.wamp.kind == wampRegistered
	case "unregister":
		return e.wamp.kind == wampUnregistered
	case "disconnect":
		return e.wamp.kind == wampGoodbye
	}
	return false
}

// answered tells whether a verb always has an answer, or ends the connection.
func (a *wampActor) answered(verb string) bool {
	switch verb {
	case "connect", "sub", "unsub", "register", "unregister", "drop", "disconnect":
		return true
	}
	return false
}
