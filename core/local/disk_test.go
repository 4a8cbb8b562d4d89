package local

import (
	"log/slog"
	"testing"

	"entrepot/core"
	"entrepot/core/enginetest"
	"entrepot/core/store"
)

// openOnDisk opens an engine on a disk in memory.
func openOnDisk(t testing.TB, d *store.Disk) (*Engine, *store.Store) {
	t.Helper()
	st, err := store.Open("data", store.Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(slog.New(slog.DiscardHandler), st, "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, st
}

func TestEngineOnDisk(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) core.Engine {
		e, _ := openOnDisk(t, store.MemoryDisk())
		return e
	})
}

func TestEngineOnDiskWithSmallWindow(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) core.Engine {
		e, _ := openOnDisk(t, store.MemoryDisk())
		e.window = windowSize{count: 4, bytes: 1 << 20}
		return e
	})
}
