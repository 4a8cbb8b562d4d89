package main

import (
	"log/slog"

	"entrepot/adapters"
	"entrepot/conf"
)

// newGate reads what listeners need to let clients in.
func newGate(cfg conf.Config, log *slog.Logger) (adapters.Gate, error) {
	material, err := adapters.NewTLSMaterial(cfg.TLS, log)
	return adapters.Gate{TLS: material}, err
}
