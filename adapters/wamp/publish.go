package wamp

import (
	"strings"
	"sync/atomic"

	"github.com/gammazero/nexus/v3/wamp"

	"entrepot/core"
	"entrepot/routing"
)

// First levels that are addresses, not topics (names.md, 3).
const (
	queueLevel    = "$queue"
	exchangeLevel = "$exchange"
	wampLevel     = "wamp"
)

// target is what a URI in PUBLISH or CALL means.
type target struct {
	uri     string
	address core.Address
	err     error       // why nothing can be published there
	queue   string      // the queue's name; empty for a topic
	made    atomic.Bool // the queue is there, as far as is known
}

// targets remembers a connection's URIs; the last one is found without a look-up.
type targets struct {
	last *target
	all  map[string]*target
}

// maxTargets bounds the memory, beyond it all are forgotten; longer URIs than
// maxRemembered are read anew each time.
const (
	maxTargets    = 256
	maxRemembered = 512
)

func (t *targets) find(uri []byte) *target {
	if t.last != nil && string(uri) == t.last.uri {
		return t.last
	}
	to := t.all[string(uri)]
	if to == nil {
		to = &target{uri: string(uri)}
		to.address, to.err = parseAddress(to.uri)
		to.queue, _ = to.address.QueueName()
		if len(uri) <= maxRemembered {
			if t.all == nil || len(t.all) >= maxTargets {
				t.all = map[string]*target{}
			}
			t.all[to.uri] = to
		}
	}
	t.last = to
	return to
}

// parseAddress reads where a client publishes to.
func parseAddress(uri string) (core.Address, error) {
	t, err := routing.URI.ParseTopic(uri)
	if err != nil {
		return core.Address{}, refuse(errURI, "%v", err)
	}
	if t.First() == wampLevel {
		return core.Address{}, refuse(errURI, "URIs that begin with wamp are the router's own")
	}
	if !t.Dollar() {
		return core.Address{Exchange: core.TopicExchange, Topic: t}, nil
	}
	levels := t.Levels()
	switch {
	case levels[0] == queueLevel && len(levels) == 2:
		a, err := core.QueueAddress(levels[1])
		if err != nil {
			return a, refuse(errURI, "%v", err)
		}
		return a, nil
	case levels[0] == exchangeLevel && len(levels) >= 3:
		return core.Address{Exchange: levels[1], Topic: t.Drop(2)}, nil
	}
	return core.Address{}, refuse(errURI, "URIs that begin with $ are $queue.name and $exchange.name.key")
}

// printAddress writes an address as a URI; "" for one that has none.
func printAddress(a core.Address) string {
	t := a.Topic
	var err error
	if name, ok := a.QueueName(); ok {
		t, err = routing.NewTopic(queueLevel, name)
	} else if a.Exchange != core.TopicExchange && a.Exchange != core.RPCExchange {
		t, err = t.Under(exchangeLevel, a.Exchange)
	}
	if err != nil {
		return ""
	}
	uri, err := routing.URI.PrintTopic(t)
	if err != nil {
		return ""
	}
	return uri
}

// publish sends an event on its way (WAMP, Publishing and Events).
func (c *conn) publish(m *message) error {
	id, options, uri, err := c.request(m, 1)
	if err != nil {
		return err
	}
	a, err := c.payload(m, 4)
	if err != nil {
		return err
	}
	to := c.targets.find(uri)
	p := carry(a, nil)
	p.Message.Exchange, p.Message.Topic = to.address.Exchange, to.address.Topic
	p.Guarantee = core.AtLeastOnce
	p.id = randomID()
	if options != nil {
		err = c.describe(p, a, options)
	}
	if err == nil {
		err = to.err
	}
	if err == nil {
		err = c.reach(to)
	}
	acknowledge := options != nil && options.flag(wamp.OptAcknowledge)
	switch {
	case err == nil && !acknowledge:
		c.session.Publish(c.lane, &p.Message, to.told())
	case err == nil:
		c.publishAcknowledged(id, p, to)
	case acknowledge:
		c.refuse(wamp.PUBLISH, id, err)
	default:
		c.session.Drops().Add(core.DropNotAllowed, 1)
	}
	return nil
}

// reach makes the queue that a URI names, if it is not known to be there.
func (c *conn) reach(to *target) error {
	if to.queue == "" || to.made.Load() {
		return nil
	}
	err := c.needQueue(to.queue)
	to.made.Store(err == nil)
	return err
}

// told notices that a queue is gone; nil for a topic.
func (t *target) told() core.Done {
	if t.queue == "" {
		return nil
	}
	return t.reached
}

func (t *target) reached(routed bool, err error) {
	if !routed && err == nil {
		t.made.Store(false)
	}
}

func (c *conn) publishAcknowledged(request uint64, p *published, to *target) {
	p.Guarantee = core.Durable
	publication := p.id
	c.session.Publish(c.lane, &p.Message, func(routed bool, err error) {
		to.reached(routed, err)
		if err != nil {
			c.refuse(wamp.PUBLISH, request, err)
			return
		}
		c.done(wamp.PUBLISHED, request, publication)
	})
}

// describe reads the options of PUBLISH.
func (c *conn) describe(p *published, a arguments, options dict) error {
	p.Retain = options.flag("retain")
	if v, ok := options.get(wamp.OptExcludeMe).(bool); ok {
		p.includeMe = !v
	}
	var err error
	if p.only, err = audienceOf(options); err != nil {
		return err
	}
	if options.flag(wamp.OptDiscloseMe) {
		p.details = c.disclosed("publisher")
	}
	p.details = append(p.details, passedThrough(options)...)
	return p.describe(a, options)
}

// disclosed is who the client is, to those who may know: role_… details.
func (c *conn) disclosed(role string) dict {
	who := c.who.Load()
	return dict{{role, int64(c.id)}, {role + "_authid", who.authid}, {role + "_authrole", who.authrole}}
}

// passedThrough are the options of payload passthrough mode, for receivers as they
// are.
func passedThrough(options dict) (d dict) {
	for _, m := range options {
		if strings.HasPrefix(m.key, "ppt_") {
			d = append(d, m)
		}
	}
	return d
}

// audience says who gets an event (WAMP, Subscriber Black- and Whitelisting).
type audience struct {
	exclude, eligible map[uint64]struct{} // nil: no such list
	no, yes           []attributeList
}

// attributeList is a list for one detail of sessions.
type attributeList struct {
	name   string
	values []string
}

// audienceOf reads the lists; nil when there are none.
func audienceOf(options dict) (*audience, error) {
	var a audience
	some := false
	for _, m := range options {
		black := strings.HasPrefix(m.key, wamp.BlacklistKey)
		name, _ := strings.CutPrefix(strings.TrimPrefix(m.key, wamp.WhitelistKey), wamp.BlacklistKey)
		if m.key == wamp.OptExcludeMe || name == m.key {
			continue
		}
		values, ok := m.value.(list)
		if !ok {
			return nil, refuse(errArgument, "option %.60s is no list", m.key)
		}
		some = true
		var err error
		switch {
		case name == "" && black:
			a.exclude, err = idsOf(m.key, values)
		case name == "":
			a.eligible, err = idsOf(m.key, values)
		case black:
			a.no, err = addAttribute(a.no, name, values)
		default:
			a.yes, err = addAttribute(a.yes, name, values)
		}
		if err != nil {
			return nil, err
		}
	}
	if !some {
		return nil, nil
	}
	return &a, nil
}

func idsOf(option string, values list) (map[uint64]struct{}, error) {
	ids := make(map[uint64]struct{}, len(values))
	for _, v := range values {
		id, ok := whole(v)
		if !ok {
			return nil, refuse(errArgument, "option %s holds what is no session id", option)
		}
		ids[id] = struct{}{}
	}
	return ids, nil
}

func addAttribute(all []attributeList, name string, values list) ([]attributeList, error) {
	l := attributeList{name: strings.TrimPrefix(name, "_")}
	for _, v := range values {
		text, ok := v.(string)
		if !ok {
			return nil, refuse(errArgument, "a list for %.60s holds what is no text", l.name)
		}
		l.values = append(l.values, text)
	}
	return append(all, l), nil
}

// takes tells whether a session is among them.
func (a *audience) takes(c *conn) bool {
	if _, no := a.exclude[c.id]; no {
		return false
	}
	if _, yes := a.eligible[c.id]; a.eligible != nil && !yes {
		return false
	}
	who := c.who.Load()
	for _, l := range a.no {
		if l.has(who) {
			return false
		}
	}
	for _, l := range a.yes {
		if !l.has(who) {
			return false
		}
	}
	return true
}

func (l *attributeList) has(who *identity) bool {
	value := who.attribute(l.name)
	for _, v := range l.values {
		if v == value && v != "" {
			return true
		}
	}
	return false
}
