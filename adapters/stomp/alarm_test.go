package stomp

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"entrepot/core"
	"entrepot/core/local"
	"entrepot/core/store"
)

// While the disk is nearly full a SEND for it is refused by an ERROR that has the
// figures; what is in memory only, consumers and their ACKs go on.
// It shows fault 71.
func TestDiskAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		st, err := store.Open("data", store.Options{Disk: store.MemoryDisk()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}()
		engine, err := local.Open(log, st, "default")
		if err != nil {
			t.Fatal(err)
		}
		tr := &transcript{t: t, clients: map[string]*pipeClient{}, vars: map[string]string{}, cfg: DefaultConfig()}
		tr.broker = core.NewBroker(core.DefaultConfig(), "default", engine, nil, log)
		if err := tr.broker.Restore(st); err != nil {
			t.Fatal(err)
		}
		var free atomic.Uint64
		free.Store(1 << 30)
		tr.broker.Probe(core.Probes{DiskFree: func() (uint64, error) { return free.Load(), nil }})
		tr.server = New(tr.cfg, core.NewRealms(tr.broker), log)
		defer tr.end()
		steps := func(list ...[2]string) {
			t.Helper()
			for _, s := range list {
				if !tr.step(s[0], s[1]) {
					t.Fatalf("%q: not understood", s[0])
				}
				if t.Failed() {
					t.Fatalf("failed in %q", s)
				}
			}
		}
		const send = "SEND\ndestination:/queue/q\nreceipt:r\n"
		steps([2]string{"a connects 1.2"}, [2]string{"b connects 1.2"}, [2]string{"c connects 1.2"},
			[2]string{"a sends", send + "persistent:true\n\nbefore^@"}, [2]string{"a gets receipt r"})
		free.Store(120 << 20)
		steps([2]string{"wait 1s"},
			[2]string{"a sends", send + "persistent:true\n\nrefused^@"},
			[2]string{"a gets", "ERROR\nmessage:no room\nreceipt-id:r\n...\n\nno room: disk space: 120 MiB free, mark 256 MiB: full\n^@"},
			[2]string{"b sends", send + "\nin memory^@"}, [2]string{"b gets receipt r"},
			[2]string{"c sends", "SUBSCRIBE\ndestination:/queue/q\nid:1\nack:client\n\n^@"},
			[2]string{"c gets", "MESSAGE\n...\nack:$one\n\nbefore^@"},
			[2]string{"c gets", "MESSAGE\n...\nack:$two\n\nin memory^@"},
			[2]string{"c sends", "ACK\nid:$two\nreceipt:done\n\n^@"}, [2]string{"c gets receipt done"})
		free.Store(1 << 30)
		steps([2]string{"wait 1s"},
			[2]string{"b sends", send + "persistent:true\n\nafter^@"}, [2]string{"b gets receipt r"},
			[2]string{"c gets", "MESSAGE\n...\nack:$three\n\nafter^@"},
			[2]string{"c sends", "ACK\nid:$three\nreceipt:done\n\n^@"}, [2]string{"c gets receipt done"})
	})
}
