package local

import (
	"log/slog"
	"testing"

	"entrepot/core"
	"entrepot/core/enginetest"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(*testing.T) core.Engine { return New(quiet()) })
}
