package main

import (
	"fmt"
	"log/slog"

	"entrepot/core"
	"entrepot/core/auth"
	"entrepot/core/local"
	"entrepot/core/store"
)

// kept is the store that the realms share; without one all is in memory.
type kept struct {
	store *store.Store
	dir   string
	log   *slog.Logger
}

// openStore opens the data directory.
func openStore(c store.Config, log *slog.Logger) (*kept, error) {
	if c.Data == "" {
		return &kept{log: log}, nil
	}
	reserve := c.ReserveBytes
	if reserve == 0 {
		reserve = -1
	}
	st, err := store.Open(c.Data, store.Options{Log: log, CacheBytes: c.CacheBytes, ReserveBytes: reserve})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	log.Info("data directory", "path", c.Data)
	return &kept{store: st, dir: c.Data, log: log}, nil
}

// broker makes a realm's broker with what is kept of it.
func (k *kept) broker(c core.Config, realm string, d *auth.Door, p auth.Policy, log *slog.Logger, rules core.PolicyConfigs) (*core.Broker, error) {
	policies, err := core.NewPolicies(rules)
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	if k.store == nil {
		b := core.NewBroker(c, realm, local.New(log, local.WithPolicies(policies)), p, log)
		b.SetDoor(d)
		return b, nil
	}
	engine, err := local.Open(log, k.store, realm, local.WithPolicies(policies))
	if err != nil {
		return nil, err
	}
	b := core.NewBroker(c, realm, engine, p, log)
	b.SetDoor(d)
	return b, b.Restore(k.store)
}

// probes are what the alarms of a broker ask.
func (k *kept) probes() core.Probes {
	p := core.Probes{MemoryUsed: newMemoryMeter().used, MemoryLimit: memoryBase()}
	if k.store != nil {
		p.DiskFree = k.store.Free
	}
	return p
}

// close comes after the last use of the brokers.
func (k *kept) close() {
	if k.store == nil {
		return
	}
	if err := k.store.Close(); err != nil {
		k.log.Error("data directory", "error", err)
	}
}
