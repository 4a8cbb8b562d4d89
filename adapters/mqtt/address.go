package mqtt

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// The first levels that are addresses, not topics (names.md, section 3).
const (
	queueLevel    = "$queue"
	exchangeLevel = "$exchange"
	shareLevel    = "$share"
	delayedLevel  = "$delayed"
	rpcLevel      = "$rpc"
)

// parseAddress reads where a client publishes to, from a topic name. Errors:
// fault for what is no topic name, *refusal for one that is not served.
func parseAddress(text string) (core.Address, error) {
	t, err := routing.MQTT.ParseTopic(text)
	if err != nil {
		return core.Address{}, topicError(err)
	}
	if !t.Dollar() {
		return core.Address{Exchange: core.TopicExchange, Topic: t}, nil
	}
	levels := t.Levels()
	switch levels[0] {
	case queueLevel:
		if len(levels) != 2 {
			return core.Address{}, refuse(badTopic, "a queue's name is one level, a slash in it is %%2F")
		}
		a, err := core.QueueAddress(levels[1])
		if err != nil {
			return core.Address{}, refuse(badTopic, "%v", err)
		}
		return a, nil
	case exchangeLevel:
		if len(levels) < 3 {
			return core.Address{}, refuse(badTopic, "an exchange is addressed as $exchange/name/key")
		}
		return core.Address{Exchange: levels[1], Topic: t.Drop(2)}, nil
	case rpcLevel:
		if len(levels) < 2 {
			return core.Address{}, refuse(badTopic, "a procedure is addressed as $rpc/name")
		}
		return core.Address{Exchange: core.RPCExchange, Topic: t.Drop(1)}, nil
	}
	return core.Address{Exchange: core.TopicExchange, Topic: t}, nil
}

// errReserved refuses topics that clients cannot publish to.
var errReserved error = reserved{}

type reserved struct{}

func (reserved) Error() string { return "topics that start with $ are the broker's own" }
func (reserved) Unwrap() error { return core.ErrNotAllowed }

// maxDelay is the longest delay, in milliseconds.
const maxDelay = math.MaxUint32

// delayedTopic cuts $delayed/<seconds>/ off a topic name.
func delayedTopic(text string) (rest string, delay time.Duration, err error) {
	rest, is := strings.CutPrefix(text, delayedLevel+"/")
	if !is {
		return text, 0, nil
	}
	seconds, rest, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(seconds, 10, 32)
	if err != nil || n > maxDelay/1000 || rest == "" || strings.HasPrefix(rest, delayedLevel) {
		return "", 0, refuse(badTopic, "a delay is addressed as $delayed/seconds/topic, up to %d seconds", maxDelay/1000)
	}
	return rest, time.Duration(n) * time.Second, nil
}

// publishAddress is parseAddress without the topics that are the broker's own.
func publishAddress(text string) (core.Address, error) {
	a, err := parseAddress(text)
	if err == nil && a.Exchange == core.TopicExchange && a.Topic.Dollar() {
		err = errReserved
	}
	return a, err
}

// topicError sorts what is no topic name (the connection ends) from what is
// one that passes this broker's limits.
func topicError(err error) error {
	e, ok := errors.AsType[*routing.TextError](err)
	if !ok {
		return faultf(badTopic, "%v", err)
	}
	switch e.Fault {
	case routing.FaultLevels, routing.FaultLong:
		return refuse(badTopic, "%v", err)
	case routing.FaultUTF8, routing.FaultNUL, routing.FaultNonCharacter:
		return faultf(malformed, "%v", err)
	}
	return faultf(badTopic, "%v", err)
}

// printAddress writes an address as a topic name; "" for one that MQTT cannot
// write.
func printAddress(a core.Address) string {
	if name, ok := a.QueueName(); ok {
		return printLevels(queueLevel, name)
	}
	if a.Exchange == core.TopicExchange {
		return a.Topic.String()
	}
	t, err := a.Topic.Under(exchangeLevel, a.Exchange)
	if a.Exchange == core.RPCExchange {
		t, err = a.Topic.Under(rpcLevel)
	}
	if err != nil {
		return ""
	}
	return t.String()
}

func printLevels(levels ...string) string {
	t, err := routing.NewTopic(levels...)
	if err != nil {
		return ""
	}
	return t.String()
}

// kind is what a subscription is to.
type kind uint8

const (
	topics kind = iota // a binding of the session's queue
	shared             // $share: a group's queue
	work               // $queue: a named queue
	serve              // $rpc: a queue of its own, for calls of a procedure
)

// subscription is one of a session's; it does not change.
type subscription struct {
	text   string // as the client wrote it
	kind   kind
	filter routing.Filter // of topics, shared and serve
	queue  core.QueueKey  // of shared and work
	id     uint32         // Subscription Identifier, 0 for none
	qos    byte           // granted

	noLocal     bool
	asPublished bool
}

// parseFilter reads what a client subscribes to. Errors: fault for what is no
// topic filter, *refusal for one that is not served.
func parseFilter(text string) (subscription, error) {
	if !strings.HasPrefix(text, "$") {
		f, err := routing.MQTT.ParseFilter(text)
		if err != nil {
			return subscription{}, filterError(err)
		}
		return subscription{text: text, filter: f}, nil
	}
	first, rest, _ := strings.Cut(text, "/")
	switch first {
	case shareLevel:
		return parseShare(text, rest)
	case queueLevel:
		return parseQueue(text)
	case rpcLevel:
		return parseServe(text)
	case exchangeLevel, delayedLevel:
		return subscription{}, refuse(badFilter, "%s is for publishing", first)
	}
	f, err := routing.MQTT.ParseFilter(text)
	if err != nil {
		return subscription{}, filterError(err)
	}
	return subscription{text: text, filter: f}, nil
}

// parseServe reads $rpc/ and a procedure's name or pattern.
func parseServe(text string) (subscription, error) {
	f, err := routing.MQTT.ParseFilter(text)
	if err != nil {
		return subscription{}, filterError(err)
	}
	if f = f.Drop(1); f.IsZero() {
		return subscription{}, refuse(badFilter, "a procedure is $rpc/name")
	}
	return subscription{text: text, kind: serve, filter: f}, nil
}

// parseShare reads what follows $share/ (MQTT 5, 4.8.2).
func parseShare(text, rest string) (subscription, error) {
	group, filter, ok := strings.Cut(rest, "/")
	if !ok || group == "" || strings.ContainsAny(group, "+#") {
		return subscription{}, refuse(badFilter, "a shared subscription is $share/group/filter")
	}
	if first, _, _ := strings.Cut(filter, "/"); first == queueLevel || first == exchangeLevel || first == shareLevel {
		return subscription{}, refuse(badFilter, "a shared subscription is to topics")
	}
	f, err := routing.MQTT.ParseFilter(filter)
	if err != nil {
		return subscription{}, filterError(err)
	}
	return subscription{text: text, kind: shared, filter: f, queue: core.Key(core.GroupQueue, group, filter)}, nil
}

// parseQueue reads $queue/name.
func parseQueue(text string) (subscription, error) {
	a, err := parseAddress(text)
	if err != nil {
		if r, ok := errors.AsType[*refusal](err); ok {
			return subscription{}, refuse(badFilter, "%s", r.text)
		}
		return subscription{}, refuse(badFilter, "a queue's name has no wildcards")
	}
	name, _ := a.QueueName()
	return subscription{text: text, kind: work, queue: core.Named(name)}, nil
}

// filterError: a filter that is no UTF-8 ends the connection, any other is
// refused alone.
func filterError(err error) error {
	if e, ok := errors.AsType[*routing.TextError](err); ok && (e.Fault == routing.FaultUTF8 || e.Fault == routing.FaultNUL || e.Fault == routing.FaultNonCharacter) {
		return faultf(malformed, "%v", err)
	}
	return refuse(badFilter, "%v", err)
}
