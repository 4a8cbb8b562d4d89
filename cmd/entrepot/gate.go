package main

import (
	"log/slog"

	"entrepot/adapters"
	"entrepot/conf"
)

// newGate reads what listeners need to let clients in.
func newGate(cfg conf.Config, again *reloads, log *slog.Logger) (adapters.Gate, error) {
	material, err := adapters.NewTLSMaterial(cfg.TLS, log)
	again.add("tls", material.Read)
	return adapters.Gate{TLS: material, Proxies: cfg.Proxy}, err
}
