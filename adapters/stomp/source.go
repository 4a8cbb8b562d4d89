package stomp

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"entrepot/core"
	"entrepot/routing"
)

// source is the queue behind a subscription and how messages get into it.
type source struct {
	session  *core.Session // whose verbs are used; a durable subscription has its own
	spec     core.QueueSpec
	lenient  bool // an existing queue is taken as it is
	owned    bool // the queue ends with the subscription
	durable  string
	binding  *core.BindSpec
	priority int // of the consumer
	accepts  func(*core.Message) bool
}

// sourceOf finds what stands behind a destination.
func (c *conn) sourceOf(f *frame, p place, s *subscription) (source, error) {
	args, err := subscribeArgs(f)
	if err != nil {
		return source{}, err
	}
	src := source{session: c.session, spec: core.QueueSpec{Args: args.queue}, priority: args.priority}
	switch p.kind {
	case topicPlace, exchangePlace, procedurePlace:
		return c.boundSource(f, p, src, s.number)
	case tempQueuePlace, tempTopicPlace:
		name, err := c.temporary(p)
		if err != nil {
			return source{}, err
		}
		src.spec.Key, src.spec.Passive = core.Named(name), true
	case queuePlace:
		src.spec.Key, src.spec.Passive = core.Named(p.name), privateName(p.name)
		src.lenient = !args.given && !declares(f)
		queueFlags(f, &src.spec)
	default:
		src.spec.Key, src.spec.Passive = core.Named(p.name), true
	}
	if s.selector != nil {
		// What it does not choose is for others, so the queue asks it and Deliver does not.
		src.accepts, s.selector = s.selector.chooses, nil
	}
	s.fixed = c.destinationHeader(prefixes[p.kind] + encodeName(p.name))
	return src, nil
}

// boundSource is the source of a topic or an exchange: a queue of the subscription's
// own, or one with a name, or a durable subscription's.
func (c *conn) boundSource(f *frame, p place, src source, number uint64) (source, error) {
	filter, err := c.filterOf(p)
	if err != nil {
		return src, err
	}
	src.binding = &core.BindSpec{Source: core.TopicExchange, Filter: filter, Replay: core.ReplayIfNew}
	switch p.kind {
	case exchangePlace:
		src.binding.Source = p.name
	case procedurePlace:
		src.binding.Source = core.RPCExchange
	}
	switch {
	case f.has.holds(xQueueNameHeader):
		src.spec.Key = core.Named(f.text(xQueueNameHeader))
		src.spec.Durable = f.isTrue(durableHeader)
		src.spec.AutoDelete = !src.spec.Durable
		src.spec.Exclusive = f.isTrue(exclusiveHeader)
		if f.has.holds(autoDeleteHeader) {
			src.spec.AutoDelete = f.isTrue(autoDeleteHeader)
		}
		src.lenient = !declares(f)
	case wantsDurable(f):
		return c.durableSource(f, src)
	default:
		src.spec.Key = core.Key(core.TopicQueue, strconv.FormatUint(uint64(c.session.ID()), 10),
			strconv.FormatUint(number, 10))
		src.spec.Exclusive, src.owned = true, true
		c.bound(&src.spec.Args)
	}
	src.binding.Queue = src.spec.Key
	return src, nil
}

// bound sets the limits of a subscription's own queue; the client may lower them.
func (c *conn) bound(a *core.QueueArgs) {
	if !a.HasMaxLength || a.MaxLength > c.cfg.SubscriptionLength {
		a.MaxLength, a.HasMaxLength = c.cfg.SubscriptionLength, true
	}
	if !a.HasMaxBytes || a.MaxBytes > c.cfg.SubscriptionBytes {
		a.MaxBytes, a.HasMaxBytes = c.cfg.SubscriptionBytes, true
	}
}

func (c *conn) filterOf(p place) (routing.Filter, error) {
	if p.kind == topicPlace {
		f, err := c.server.names.filter(p.key)
		return f, badName(err)
	}
	if p.kind == procedurePlace {
		f, err := routing.Dotted.ParseAngle(p.key)
		return f, badName(err)
	}
	f, err := routing.Dotted.ParseFilter(p.key)
	return f, badName(err)
}

// declares tells whether a frame says how its queue should be.
func declares(f *frame) bool {
	return f.has&queueHeaders != 0
}

// queueFlags reads durable, which is the default, auto-delete and exclusive.
func queueFlags(f *frame, q *core.QueueSpec) {
	if q.Passive {
		return
	}
	q.Durable = !f.has.holds(durableHeader) || f.isTrue(durableHeader)
	q.AutoDelete = f.isTrue(autoDeleteHeader)
	q.Exclusive = f.isTrue(exclusiveHeader)
}

// arguments are what the x- headers of a frame say of its queue and consumer.
type arguments struct {
	queue    core.QueueArgs
	given    bool
	priority int
}

// subscribeArgs reads all x- headers of a SUBSCRIBE; an unknown one is refused by name.
func subscribeArgs(f *frame) (arguments, error) {
	var a arguments
	var hs routing.Headers
	if !f.has.holds(otherHeader) {
		return a, nil
	}
	for _, s := range f.spans {
		name := f.decode(f.nameOf(s))
		switch {
		case s.id != otherHeader || !strings.HasPrefix(name, "x-"):
		case name == "x-priority":
			n, ok := decimal(f.valueOf(s))
			if !ok {
				return a, malformed("x-priority is not a number: %.40q", f.valueOf(s))
			}
			a.priority = n
		default:
			hs = append(hs, routing.Header{Name: name, Value: f.decode(f.valueOf(s))})
		}
	}
	var err error
	a.queue, err = core.ParseQueueArgs(hs)
	a.given = len(hs) > 0
	return a, err
}

// queueArgument tells the x- headers of a SEND that describe its queue.
func queueArgument(name string) bool {
	switch name {
	case "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
		"x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-priority", "x-single-active-consumer",
		"x-delivery-limit", "x-redelivery-delay", "x-last-value-key", "x-queue-type", "x-queue-mode", "x-queue-version":
		return true
	}
	return false
}

// sendArgs reads those.
func sendArgs(f *frame) (arguments, error) {
	var hs routing.Headers
	if !f.has.holds(otherHeader) {
		return arguments{}, nil
	}
	for _, s := range f.spans {
		if name := f.decode(f.nameOf(s)); s.id == otherHeader && queueArgument(name) {
			hs = append(hs, routing.Header{Name: name, Value: f.decode(f.valueOf(s))})
		}
	}
	q, err := core.ParseQueueArgs(hs)
	return arguments{queue: q, given: len(hs) > 0}, err
}

// open declares the queue. Who works on one that is there needs no right to make
// it, and nothing from a disk that fails.
func (s *source) open() error {
	_, err := s.session.DeclareQueue(context.Background(), s.spec)
	if s.lenient && (errors.Is(err, core.ErrConflict) ||
		s.binding == nil && (errors.Is(err, core.ErrFull) || errors.Is(err, core.ErrNotAllowed))) {
		if _, there := s.session.DeclareQueue(context.Background(), core.QueueSpec{Key: s.spec.Key, Passive: true}); !errors.Is(there, core.ErrNotFound) {
			err = there
		}
	}
	return err
}

// bind lets messages in; retained ones come first. A direct exchange has no wildcards:
// what looks like one is a part of its key.
func (s *source) bind() error {
	if s.binding == nil {
		return nil
	}
	err := s.session.Bind(context.Background(), *s.binding)
	if !errors.Is(err, core.ErrInvalid) || !s.binding.Filter.HasWildcard() || s.binding.Source == core.TopicExchange {
		return err
	}
	text, printErr := routing.Dotted.PrintFilter(s.binding.Filter)
	key, parseErr := routing.Dotted.ParseTopic(text)
	if printErr != nil || parseErr != nil {
		return err
	}
	s.binding.Filter = key.Filter()
	return s.session.Bind(context.Background(), *s.binding)
}

// close deletes the queue when it was the subscription's own.
func (s *source) close() {
	if s.owned {
		// Gone already is as good.
		_, _ = s.session.DeleteQueue(context.Background(), s.spec.Key, core.DeleteOptions{})
	}
}
