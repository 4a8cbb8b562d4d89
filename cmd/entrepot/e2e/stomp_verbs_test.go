package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// stompActor is a STOMP client of a scenario. Every pair "name:value" of a
// line is a header of the frame.
type stompActor struct {
	name   string
	dial   func() net.Conn
	client *stompClient
}

func (a *stompActor) inbox() *inbox { return a.client.inbox }

// do carries out a verb.
func (a *stompActor) do(verb string, words []word) error {
	if verb != "connect" && a.client.conn == nil {
		return fmt.Errorf("%s is not connected", a.name)
	}
	switch verb {
	case "connect":
		return a.connect(words)
	case "sub":
		return a.destination("SUBSCRIBE", words)
	case "send":
		return a.destination("SEND", words)
	case "unsub":
		return a.frame("UNSUBSCRIBE", words)
	case "begin", "commit", "abort", "disconnect":
		return a.frame(strings.ToUpper(verb), words)
	case "reply":
		return a.reply(words)
	case "ack", "nack":
		return a.settle(strings.ToUpper(verb), words)
	case "drop":
		return a.client.conn.Close()
	}
	return fmt.Errorf("no verb %q for STOMP", verb)
}

// connect opens a connection in the version of the actor's protocol; "stomp"
// alone is 1.2.
func (a *stompActor) connect(words []word) error {
	o := readOptions(words, ":")
	f := &frame{command: "CONNECT", headers: [][2]string{{"accept-version", a.client.version}, {"host", "/"}}}
	f.headers = append(f.headers, o.pairs...)
	o.pairs = nil
	if err := o.done(); err != nil {
		return err
	}
	a.client.conn = a.dial()
	go a.client.listen(a.client.conn)
	return a.client.send(f)
}

// destination sends SEND or SUBSCRIBE; the id of a subscription is the
// destination where none is given.
func (a *stompActor) destination(command string, words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("no destination")
	}
	f := &frame{command: command, headers: [][2]string{{"destination", words[0].text}}}
	o := readOptions(words[1:], ":")
	f.body = []byte(o.payload)
	if command == "SUBSCRIBE" {
		f.headers = append(f.headers, [2]string{"id", o.pop("id", words[0].text)})
	}
	f.headers = append(f.headers, o.pairs...)
	o.pairs = nil
	if err := o.done(); err != nil {
		return err
	}
	return a.client.send(f)
}

func (a *stompActor) frame(command string, words []word) error {
	o := readOptions(words, ":")
	f := &frame{command: command, headers: o.pairs}
	o.pairs = nil
	if err := o.done(); err != nil {
		return err
	}
	return a.client.send(f)
}

// reply answers message #N, a call, where it says.
func (a *stompActor) reply(words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("reply to what?")
	}
	n, err := strconv.Atoi(strings.TrimPrefix(words[0].text, "#"))
	if err != nil {
		return err
	}
	e, err := a.client.message(n)
	if err != nil {
		return err
	}
	return a.destination("SEND", append([]word{{text: e.frame.get("reply-to")}}, words[1:]...))
}

// settle acknowledges message #N, or says that it was not used, in the words of the version.
func (a *stompActor) settle(command string, words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("%s what?", command)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(words[0].text, "#"))
	if err != nil {
		return err
	}
	e, err := a.client.message(n)
	if err != nil {
		return err
	}
	f := &frame{command: command}
	if a.client.version == "1.2" {
		f.headers = [][2]string{{"id", e.frame.get("ack")}}
	} else {
		f.headers = [][2]string{{"subscription", e.frame.get("subscription")}, {"message-id", e.frame.get("message-id")}}
	}
	o := readOptions(words[1:], ":")
	f.headers = append(f.headers, o.pairs...)
	return a.client.send(f)
}

// plainSuccess tells whether an event only says that a verb did what everybody
// expects; scripts do not show it.
func (a *stompActor) plainSuccess(verb string, e event) bool {
	if e.frame == nil {
		return e.end == "closed" && (verb == "drop" || verb == "disconnect")
	}
	return verb == "connect" && e.frame.command == "CONNECTED" &&
		e.frame.get("version") == a.client.version
}

// answered tells whether a verb always has an answer, or ends the connection.
func (a *stompActor) answered(verb string) bool {
	return verb == "connect" || verb == "drop" || verb == "disconnect"
}
