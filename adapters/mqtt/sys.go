package mqtt

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"entrepot/core"
	"entrepot/routing"
)

// figures publishes the broker's own figures under $SYS/broker, retained, in
// every realm.
type figures struct {
	realms   *core.Realms
	interval time.Duration
	since    time.Time

	mu   sync.Mutex
	quit chan struct{}
	done chan struct{}
}

func newFigures(r *core.Realms, interval time.Duration) *figures {
	return &figures{realms: r, interval: interval, since: time.Now()}
}

// start begins to publish, once.
func (f *figures) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.interval == 0 || f.quit != nil {
		return
	}
	f.quit, f.done = make(chan struct{}), make(chan struct{})
	go f.run()
}

// stop ends it and waits.
func (f *figures) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.quit == nil {
		return
	}
	select {
	case <-f.quit:
	default:
		close(f.quit)
	}
	<-f.done
}

func (f *figures) run() {
	defer close(f.done)
	t := time.NewTicker(f.interval)
	defer t.Stop()
	for {
		f.realms.Each(f.publish)
		select {
		case <-f.quit:
			return
		case <-t.C:
		}
	}
}

func (f *figures) publish(b *core.Broker) {
	s := b.Stats()
	var sum core.ProtocolStats
	var dropped uint64
	for _, p := range s.Protocols {
		sum.Connections += p.Connections
		sum.Connected += p.Connected
		sum.In += p.In
		sum.Out += p.Out
		sum.InBytes += p.InBytes
		sum.OutBytes += p.OutBytes
		for _, n := range p.Dropped {
			dropped += n
		}
	}
	for _, v := range []struct {
		name  string
		value uint64
	}{
		{"clients/connected", uint64(sum.Connections)},
		{"clients/sessions", uint64(s.Sessions)},
		{"clients/total", sum.Connected},
		{"messages/received", sum.In},
		{"messages/sent", sum.Out},
		{"messages/dropped", dropped},
		{"messages/waiting", uint64(s.Engine.Ready + s.Engine.Unsettled)},
		{"bytes/received", sum.InBytes},
		{"bytes/sent", sum.OutBytes},
		{"retained/count", uint64(s.Retained)},
		{"retained/bytes", uint64(s.RetainedBytes)},
		{"subscriptions/count", uint64(s.Engine.Bindings)},
		{"queues/count", uint64(s.Engine.Queues)},
	} {
		f.set(b, v.name, strconv.FormatUint(v.value, 10))
	}
	f.set(b, "version", version())
	f.set(b, "uptime", fmt.Sprintf("%d seconds", int64(time.Since(f.since)/time.Second)))
}

func (f *figures) set(b *core.Broker, name, value string) {
	t, err := routing.ParseTopic("$SYS/broker/" + name)
	if err != nil {
		return
	}
	b.PublishOwn(&core.Message{Exchange: core.TopicExchange, Topic: t, Payload: []byte(value), Retain: true})
}

// version is the module's, as the build says.
func version() string {
	if i, ok := debug.ReadBuildInfo(); ok && i.Main.Version != "" {
		return "entrepot " + i.Main.Version
	}
	return "entrepot"
}
