package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sampleEvery = 50 * time.Millisecond // of the broker's memory
	pollEvery   = time.Millisecond      // while a run ends
)

// traffic is one pair or fan-out run.
type traffic struct {
	o           *Options
	run         uint32
	subscribers []*subscriber
	publishers  []*publisher
	broker      *processes
	self        *processes

	started  time.Time
	stop     atomic.Bool   // publishers end
	closing  atomic.Bool   // what links say from now on is no failure
	quit     chan struct{} // publishers no longer wait for room
	sentAll  chan struct{} // all publishers have ended
	failures chan error
	readers  sync.WaitGroup
	peak     int // of the broker's memory, KiB
}

// mark is the state of a run at one moment.
type mark struct {
	at              time.Time
	sent, delivered uint64
	broker, self    time.Duration // processor time
}

// connect opens all links and waits until every subscription stands.
func (t *traffic) connect(ctx context.Context, publish, subscribe endpoint) error {
	buffer := max(defaultBuffer, 2*(t.o.Size+1024))
	hear, speak := subscribe.speaks(t.o), publish.speaks(t.o)
	for i := range t.o.Subscribers {
		l, err := subscribe.open(ctx, hear, clientID(t.run, "s", i), 0, buffer)
		if err != nil {
			return fmt.Errorf("subscriber %d: %w", i, err)
		}
		first, publishers := i, 1
		if t.o.Kind == FanOut {
			first, publishers = 0, t.o.Publishers
		}
		s := newSubscriber(l, t.run, first, publishers)
		t.subscribers = append(t.subscribers, s)
		if t.o.Latency > 0 {
			s.latency = new(histogram)
		}
		if err := hear.subscribe(s, t.o.nameOf(t.topic(i))); err != nil {
			return fmt.Errorf("subscriber %d: %w", i, err)
		}
	}
	for i := range t.o.Publishers {
		l, err := publish.open(ctx, speak, clientID(t.run, "p", i), 0, 4096)
		if err != nil {
			return fmt.Errorf("publisher %d: %w", i, err)
		}
		t.publishers = append(t.publishers, t.newPublisher(l, speak, i))
	}
	return nil
}

// topic is the number of the topic of the i-th publisher or subscriber.
func (t *traffic) topic(i int) int {
	if t.o.Kind == FanOut {
		return 0
	}
	return i
}

func (t *traffic) newPublisher(l *link, speak dialect, i int) *publisher {
	f := speak.frame(t.o.nameOf(t.topic(i)), t.o.Size)
	p := &publisher{link: l, batch: t.o.batch(len(f.bytes)), every: t.o.Latency}
	p.answers.progress = newProgress()
	p.asks = f.asks()
	if t.o.Window > 0 {
		for _, s := range t.subscribers {
			if at := i - s.first; at >= 0 && at < len(s.flows) {
				p.limit(s.flows[at].progress, t.o.Window)
			}
		}
	}
	if p.asks {
		window := mostUnacked
		for _, w := range []int{t.o.Window, l.unacked} {
			if w > 0 {
				window = min(window, w)
			}
		}
		p.limit(p.answers.progress, window)
	}
	p.block = newBlock(f, p.batch, i, t.run)
	return p
}

// start lets all go.
func (t *traffic) start(publish, subscribe endpoint) {
	t.started = time.Now()
	hear, speak := subscribe.speaks(t.o), publish.speaks(t.o)
	for i, s := range t.subscribers {
		s.started = t.started
		t.read(s.link, hear.deliveries(s), fmt.Sprintf("subscriber %d", i))
	}
	var senders sync.WaitGroup
	for i, p := range t.publishers {
		p.started = t.started
		t.read(p.link, speak.answers(p.link, &p.answers), fmt.Sprintf("publisher %d", i))
		senders.Go(func() {
			if err := p.send(uint64(t.o.Messages), &t.stop, t.o.Stall, t.quit); err != nil {
				t.fail(fmt.Errorf("publisher %d: %w", i, err))
			}
		})
	}
	go func() {
		senders.Wait()
		close(t.sentAll)
	}()
}

func (t *traffic) read(l *link, scan scanner, who string) {
	l.conn.SetDeadline(time.Time{})
	t.readers.Go(func() {
		if err := l.pump(scan); err != nil {
			t.fail(fmt.Errorf("%s: %w", who, err))
		}
	})
}

// fail reports the first failures of a run that is not about to end.
func (t *traffic) fail(err error) {
	if t.closing.Load() {
		return
	}
	select {
	case t.failures <- err:
	default:
	}
}

// measure runs the traffic from warm-up to the last message and returns the
// two marks between which it counts.
func (t *traffic) measure(ctx context.Context) (from, to mark, err error) {
	from = t.mark()
	if t.o.Messages > 0 {
		err = t.pass(ctx, 0)
	} else {
		if err = t.pass(ctx, t.o.Warmup); err == nil {
			from = t.mark()
			err = t.pass(ctx, t.o.Duration)
		}
	}
	to = t.mark()
	t.stop.Store(true)
	if err != nil {
		return from, to, err
	}
	last, err := t.drain(ctx)
	if t.o.Messages > 0 {
		to = t.mark()
		to.at = last
	}
	return from, to, err
}

// pass lets the given time pass, or waits for the publishers when it is 0.
func (t *traffic) pass(ctx context.Context, span time.Duration) error {
	var over <-chan time.Time
	ended := t.sentAll
	if span > 0 || t.o.Messages == 0 {
		over, ended = time.After(span), nil
	}
	return t.broker.await(ctx, over, ended, t.failures, &t.peak)
}

// drain waits until all that was sent has come and was acknowledged, or until
// nothing moves any more, and returns the time of the last movement.
func (t *traffic) drain(ctx context.Context) (time.Time, error) {
	polls := time.NewTicker(pollEvery)
	defer polls.Stop()
	last, before := time.Now(), t.position()
	for !t.complete() {
		select {
		case err := <-t.failures:
			return last, err
		case <-ctx.Done():
			return last, ctx.Err()
		case now := <-polls.C:
			if p := t.position(); p != before {
				last, before = now, p
			} else if now.Sub(last) > t.o.Stall {
				return last, nil
			}
		}
	}
	return time.Now(), nil
}

// position changes whenever anything moves.
func (t *traffic) position() (sum uint64) {
	for _, p := range t.publishers {
		sum += p.sent.Load() + p.answers.progress.got.Load()
	}
	return sum + t.delivered()
}

func (t *traffic) delivered() (sum uint64) {
	for _, s := range t.subscribers {
		for i := range s.flows {
			sum += s.flows[i].progress.got.Load()
		}
	}
	return sum
}

// complete tells whether nothing is under way.
func (t *traffic) complete() bool {
	select {
	case <-t.sentAll:
	default:
		return false
	}
	for _, p := range t.publishers {
		if p.asks && p.answers.progress.got.Load() < p.sent.Load() {
			return false
		}
	}
	for _, s := range t.subscribers {
		for i := range s.flows {
			if s.flows[i].progress.got.Load() < t.publishers[s.first+i].sent.Load() {
				return false
			}
		}
	}
	return true
}

func (t *traffic) mark() mark {
	m := mark{delivered: t.delivered()}
	for _, p := range t.publishers {
		m.sent += p.sent.Load()
	}
	m.broker, _ = t.broker.cpu() // 0 when it has died, which the links report
	m.self, _ = t.self.cpu()
	m.at = time.Now()
	t.peak = max(t.peak, t.broker.resident())
	return m
}

// end stops all goroutines and closes all links. After it the ledgers may be
// read.
func (t *traffic) end() {
	t.closing.Store(true)
	t.stop.Store(true)
	close(t.quit)
	links := t.links()
	for _, l := range links {
		l.interrupt()
	}
	t.readers.Wait()
	if !t.started.IsZero() {
		<-t.sentAll
	}
	for _, l := range links {
		l.close()
	}
}

func (t *traffic) links() (all []*link) {
	for _, p := range t.publishers {
		all = append(all, p.link)
	}
	for _, s := range t.subscribers {
		all = append(all, s.link)
	}
	return all
}

// newTraffic prepares a run.
func newTraffic(o *Options, run uint32) (*traffic, error) {
	t := &traffic{o: o, run: run, quit: make(chan struct{}), sentAll: make(chan struct{}), failures: make(chan error, 1)}
	var err error
	if t.broker, err = watch(o.PIDs, o.Children); err != nil {
		return nil, fmt.Errorf("option pid: %w", err)
	}
	t.self = &processes{roots: []int{os.Getpid()}, all: []int{os.Getpid()}}
	return t, nil
}

// trafficRun does a pair or fan-out run.
func trafficRun(ctx context.Context, o *Options, publish, subscribe endpoint, run uint32) (Result, error) {
	t, err := newTraffic(o, run)
	if err != nil {
		return Result{}, err
	}
	if err = t.connect(ctx, publish, subscribe); err != nil {
		t.end()
		return Result{}, err
	}
	t.start(publish, subscribe)
	from, to, err := t.measure(ctx)
	t.end()
	return t.result(from, to), errors.Join(err)
}
