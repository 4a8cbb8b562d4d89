package local

import (
	"fmt"

	"entrepot/core"
	"entrepot/routing"
)

// computeApart is compute for a key that begins with $, on another exchange than
// amq.topic. There such topics are the broker's own, so no binding between
// exchanges and no alternate leads to their subscribers. Such keys are rare: their
// routes are not cached.
func (e *Engine) computeApart(x *exchange, m *core.Message) (*route, error) {
	r := &route{stamp: e.gens.now(m.Topic.First())}
	var headers routing.Headers
	if m.Props != nil {
		headers = m.Props.Headers
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	own := map[any]bool{}
	// Without that exchange there is nothing to keep apart.
	_, _ = e.router.Route(core.TopicExchange, m.Topic, headers, func(_ *queue, value any) { own[value] = true })
	var c collector
	if _, err := e.router.Route(x.spec.Name, m.Topic, headers, func(_ *queue, value any) {
		if !own[value] {
			c.add(value.(*target))
		}
	}); err != nil {
		return nil, fmt.Errorf("exchange %q: %w", x.spec.Name, core.ErrNotFound)
	}
	r.targets = c.targets
	for _, t := range r.targets {
		r.refuses = r.refuses || t.queue.refuses()
	}
	return r, nil
}
