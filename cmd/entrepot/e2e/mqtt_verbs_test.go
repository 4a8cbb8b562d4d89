package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// mqttActor is an MQTT client of a scenario.
type mqttActor struct {
	name   string
	dial   func() net.Conn
	client *mqttClient
}

func (a *mqttActor) inbox() *inbox { return a.client.inbox }

// do carries out a verb.
func (a *mqttActor) do(verb string, words []word) error {
	if verb != "connect" && a.client.conn == nil {
		return fmt.Errorf("%s is not connected", a.name)
	}
	switch verb {
	case "connect":
		return a.connect(words)
	case "sub":
		return a.subscribe(words)
	case "unsub":
		return a.unsubscribe(words)
	case "pub":
		return a.publish(words)
	case "ack":
		return a.ack(words)
	case "reply":
		return a.reply(words)
	case "ping":
		return a.client.send(&packet{kind: pingreq})
	case "disconnect":
		o := readOptions(words, "=")
		code, err := o.number("code", 0)
		if err != nil {
			return err
		}
		p := &packet{kind: disconnect, codes: []byte{byte(code)}}
		if p.props, err = o.properties(); err != nil {
			return err
		}
		return a.client.send(p)
	case "drop":
		return a.client.conn.Close()
	}
	return fmt.Errorf("no verb %q for MQTT", verb)
}

// connect opens a connection: id=, clean=, keep-alive=, user=, password=,
// manual (no acknowledgement by itself), will=TOPIC with the payload,
// will-qos=, will-retain; other pairs are properties, of the will where they
// begin with "will.".
func (a *mqttActor) connect(words []word) error {
	o := readOptions(words, "=")
	c := &connectFields{clientID: o.pop("id", a.name), clean: o.pop("clean", "true") == "true",
		user: o.pop("login", ""), password: o.pop("password", "")}
	keep, err := o.number("keep-alive", 0)
	if err != nil {
		return err
	}
	c.keepAlive = uint16(keep)
	if err := c.readWill(&o); err != nil {
		return err
	}
	a.client.manual = o.flag("manual")
	p := &packet{kind: connect, connect: c}
	if p.props, err = o.properties(); err != nil {
		return err
	}
	a.client.conn = a.dial()
	go a.client.listen(a.client.conn)
	return a.client.send(p)
}

// reply answers message #N, a call, where it says.
func (a *mqttActor) reply(words []word) error {
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
	for _, p := range e.packet.props {
		if p.id == 0x08 {
			return a.publish(append([]word{{text: p.value.(string)}}, words[1:]...))
		}
	}
	return fmt.Errorf("message #%d wants no answer", n)
}

func (c *connectFields) readWill(o *options) error {
	topic := o.pop("will", "")
	if topic == "" {
		return nil
	}
	w := &packet{topic: topic, payload: []byte(o.payload)}
	qos, err := o.number("will-qos", 0)
	if err != nil {
		return err
	}
	w.flags = byte(qos) << 1
	if o.flag("will-retain") {
		w.flags |= 1
	}
	rest := o.pairs
	o.pairs = nil
	for _, p := range rest {
		name, ofWill := strings.CutPrefix(p[0], "will.")
		if !ofWill {
			o.pairs = append(o.pairs, p)
			continue
		}
		prop, err := newProperty(name, p[1])
		if err != nil {
			return err
		}
		w.props = append(w.props, prop)
	}
	c.will = w
	return nil
}

// properties turns all pairs that are left into properties; nothing else may
// be left.
func (o *options) properties() ([]property, error) {
	var ps []property
	for _, pair := range o.pairs {
		p, err := newProperty(pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	o.pairs = nil
	return ps, o.done()
}

// subscribe: FILTER qos= no-local rap (retain as published) rh= (retain
// handling); other pairs are properties.
func (a *mqttActor) subscribe(words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("no filter")
	}
	o := readOptions(words[1:], "=")
	qos, err := o.number("qos", 0)
	if err != nil {
		return err
	}
	handling, err := o.number("rh", 0)
	if err != nil {
		return err
	}
	f := filterOption{words[0].text, byte(qos | handling<<4)}
	if o.flag("no-local") {
		f.options |= 4
	}
	if o.flag("rap") {
		f.options |= 8
	}
	p := &packet{kind: subscribe, id: a.client.nextID(), filters: []filterOption{f}}
	if p.props, err = o.properties(); err != nil {
		return err
	}
	return a.client.send(p)
}

func (a *mqttActor) unsubscribe(words []word) error {
	if len(words) != 1 {
		return fmt.Errorf("one filter, please")
	}
	return a.client.send(&packet{kind: unsubscribe, id: a.client.nextID(),
		filters: []filterOption{{filter: words[0].text}}})
}

// publish: TOPIC "payload" qos= retain dup id=; other pairs are properties.
func (a *mqttActor) publish(words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("no topic")
	}
	o := readOptions(words[1:], "=")
	qos, err := o.number("qos", 0)
	if err != nil {
		return err
	}
	p := &packet{kind: publish, topic: words[0].text, payload: []byte(o.payload), flags: byte(qos) << 1}
	if o.flag("retain") {
		p.flags |= 1
	}
	if o.flag("dup") {
		p.flags |= 8
	}
	id, err := o.number("id", 0)
	if err != nil {
		return err
	}
	if p.id = uint16(id); qos > 0 && id == 0 {
		p.id = a.client.nextID()
	}
	if p.props, err = o.properties(); err != nil {
		return err
	}
	return a.client.send(p)
}

// ack: #N code=, of a message that came with QoS 1 (PUBACK) or 2 (PUBREC).
func (a *mqttActor) ack(words []word) error {
	if len(words) == 0 {
		return fmt.Errorf("ack what?")
	}
	n, err := strconv.Atoi(strings.TrimPrefix(words[0].text, "#"))
	if err != nil {
		return err
	}
	e, err := a.client.message(n)
	if err != nil {
		return err
	}
	o := readOptions(words[1:], "=")
	code, err := o.number("code", 0)
	if err != nil {
		return err
	}
	p := &packet{kind: puback, id: e.packet.id}
	if e.packet.qos() == 2 {
		p.kind = pubrec
	}
	if code != 0 {
		p.codes = []byte{byte(code)}
	}
	return a.client.send(p)
}

// plainSuccess tells whether an event only says that a verb did what everybody
// expects; scripts do not show it.
func (a *mqttActor) plainSuccess(verb string, e event) bool {
	if e.packet == nil {
		return e.end == "closed" && (verb == "drop" || verb == "disconnect")
	}
	switch p := e.packet; verb {
	case "connect":
		return p.kind == connack && p.codes[0] == 0 && !p.session && !p.has(0x12)
	case "sub":
		return p.kind == suback && len(p.codes) == 1 && p.codes[0] <= 2
	case "unsub":
		return p.kind == unsuback && (len(p.codes) == 0 || p.codes[0] == 0)
	case "ping":
		return p.kind == pingresp
	}
	return false
}

// answered tells whether a verb always has an answer, or ends the connection.
func (a *mqttActor) answered(verb string) bool {
	return verb != "pub" && verb != "ack" && verb != "reply"
}
