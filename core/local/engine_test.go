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

// tireless is an engine whose queues hand out again at once what was given
// back, however often.
func tireless() *Engine {
	e := New(quiet())
	e.tries = 1 << 30
	return e
}
