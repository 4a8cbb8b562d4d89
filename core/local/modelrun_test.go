package local

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/store"
)

func (m *model) step(s *script) string {
	switch n := s.next(16); n {
	case 0, 1, 2, 3, 4:
		m.publish(s)
		return "publish"
	case 5, 6:
		m.attach(s)
		return "attach"
	case 7:
		m.cancel(s)
		return "cancel"
	case 8, 9:
		m.resume(s)
		return "resume"
	case 10, 11, 12:
		m.settleSome(s)
		return "settle"
	case 13:
		m.get()
		return "get"
	case 14:
		if s.next(4) == 0 {
			m.purge()
			return "purge"
		}
		m.passTurn()
		time.Sleep(time.Duration(s.next(5)) * 500 * time.Millisecond)
		return "time"
	default:
		m.apply(s)
		return "apply"
	}
}

// finish leaves nothing.
func (m *model) finish() {
	for len(m.clients) > 0 {
		m.cancel(&script{})
		m.check("the last cancels")
	}
	for _, i := range m.held(m.pulled) {
		m.settle(i, core.Requeue)
	}
	m.forget()
	m.puller.Cancel(core.Requeue)
	m.check("the puller's cancel")
	for _, k := range []core.QueueKey{m.spec.Key, core.Named("dead")} {
		if _, err := m.engine.DeleteQueue(m.t.Context(), k, core.DeleteOptions{}); err != nil {
			m.t.Fatal(err)
		}
	}
	st := m.engine.Stats()
	if st.Queues+st.Bindings+st.Consumers+st.Ready+st.Unsettled != 0 || st.Bytes != 0 {
		m.t.Fatalf("left behind: %+v", st)
	}
}

func runModel(t *testing.T, bytes []byte, open func(*testing.T) *Engine) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{bytes}
		m := newModel(t, s, open(t))
		for n := 0; len(s.left) > 0; n++ {
			m.check(fmt.Sprintf("step %d, %s", n, m.step(s)))
		}
		m.finish()
	})
}

func inMemory(*testing.T) *Engine { return New(quiet()) }

func onDisk(t *testing.T) *Engine {
	e, _ := openOnDisk(t, store.MemoryDisk())
	return e
}

// Random operations against the model, the same ones every time.
func TestQueueAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, randomBytes(seed, 400), inMemory) })
	}
}

// The same with a queue whose messages are mostly on disk.
func TestQueueOnDiskAgainstModel(t *testing.T) {
	for seed := range uint64(80) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, randomBytes(seed, 600), onDisk) })
	}
}

func randomBytes(seed uint64, n int) []byte {
	d := dice(seed)
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(d.Uint32())
	}
	return bytes
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 5, 3, 0, 0, 0, 0, 2, 1, 0, 10, 1, 0, 0, 0, 0})
	f.Add([]byte{1, 3, 0, 1, 4, 0, 1, 1, 4, 5, 1, 0, 0, 0, 7, 0, 1, 14, 1, 4, 8, 0, 3})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) <= 2000 {
			runModel(t, bytes, inMemory)
		}
	})
}
