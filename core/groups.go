package core

import (
	"context"
	"fmt"
	"sync"
)

// groups counts the client sessions, connected or not, that hold each shared
// subscription's queue; the queue goes with the last of them.
type groups struct {
	mu      sync.Mutex
	holders map[QueueKey]int
}

// hold declares the queue and takes hold of it for the session, once.
func (g *groups) hold(ctx context.Context, s *Session, q QueueSpec) (QueueInfo, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q.Exclusive = false
	info, err := s.broker.engine.DeclareQueue(ctx, q)
	if err != nil {
		return info, err
	}
	if _, ok := s.rec.held[q.Key]; ok {
		return info, nil
	}
	if s.rec.held == nil {
		s.rec.held = map[QueueKey]struct{}{}
	}
	s.rec.held[q.Key] = struct{}{}
	g.holders[q.Key]++
	return info, nil
}

// release gives up one hold.
func (g *groups) release(ctx context.Context, r *record, k QueueKey) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.releaseLocked(ctx, r, k)
}

func (g *groups) releaseLocked(ctx context.Context, r *record, k QueueKey) error {
	if _, ok := r.held[k]; !ok {
		return fmt.Errorf("%v: %w", k, ErrNotFound)
	}
	delete(r.held, k)
	g.holders[k]--
	if g.holders[k] > 0 {
		return nil
	}
	delete(g.holders, k)
	_, err := r.broker.engine.DeleteQueue(ctx, k, DeleteOptions{})
	return err
}

// releaseAll gives up all holds of a session that ends.
func (g *groups) releaseAll(ctx context.Context, r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k := range r.held {
		// The queue being gone already is as good.
		_ = g.releaseLocked(ctx, r, k)
	}
}
