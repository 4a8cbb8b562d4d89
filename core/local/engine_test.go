package local

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"entrepot/core"
	"entrepot/core/enginetest"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(*testing.T) core.Engine { return New(quiet()) })
}

func wantUnsupported(t *testing.T, err error, name string) {
	t.Helper()
	if !errors.Is(err, core.ErrUnsupported) || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v, want one that does not support %s", err, name)
	}
}
