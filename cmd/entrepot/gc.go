package main

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync/atomic"

	"entrepot/conf"
)

// The Go runtime collects when the heap has grown by a percentage. A broker
// whose queues are short has a heap of a few MiB and an allocation rate of
// hundreds a second, so at the usual 100 % it would collect all the time; that
// was half of the cost of a message. Here the percentage follows the live
// heap: large enough that a set number of bytes fits between two collections,
// and never under 100.

const (
	usualPercent = 100
	leastHeap    = 4 << 20 // the runtime's own, at 100 %
)

// setMemory applies the settings. What the environment says in GOGC and
// GOMEMLIMIT goes before them. The returned function stops the adjusting.
func setMemory(p conf.Process) (stop func()) {
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := p.MemoryLimit
		if limit == 0 {
			limit = threeQuarters(memory(os.DirFS("/")))
		}
		debug.SetMemoryLimit(limit)
	}
	if os.Getenv("GOGC") != "" || p.GCHeadroom == 0 {
		return func() {}
	}
	h := &headroom{bytes: uint64(p.GCHeadroom)}
	h.adjust()
	h.watch()
	return func() { h.stopped.Store(true) }
}

// headroom keeps the next collection at least so many bytes away.
type headroom struct {
	bytes   uint64
	percent uint64
	stopped atomic.Bool
}

// mark is what watch lets go, to hear of the next collection.
type mark struct{ _ *mark }

// watch adjusts after the next collection, and so on after each.
func (h *headroom) watch() {
	runtime.AddCleanup(&mark{}, func(h *headroom) {
		if !h.stopped.Load() {
			h.adjust()
			h.watch()
		}
	}, h)
}

// adjust sets the percentage for the heap as the last collection left it. It
// is lowered in steps only: setting it stops the world for a moment.
func (h *headroom) adjust() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	counted := s[0].Value.Uint64() + s[1].Value.Uint64() + s[2].Value.Uint64()
	want := percentFor(counted, h.bytes)
	if want > h.percent || want < h.percent*9/10 {
		h.percent = want
		debug.SetGCPercent(int(want))
	}
}

// percentFor is the percentage at which a heap of that many live bytes (stacks
// and globals counted) grows by at least headroom. The runtime takes a heap
// under its least for one of that size, and the growth from there.
func percentFor(live, headroom uint64) uint64 {
	if live < leastHeap {
		live, headroom = leastHeap, headroom+live
	}
	return max(usualPercent, (headroom*100+live-1)/live)
}

func threeQuarters(n int64) int64 {
	if n == math.MaxInt64 {
		return n
	}
	return n / 4 * 3
}

// memory is what this process may use: the machine's, or less in a control
// group; no limit where neither can be read.
func memory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	lower := func(n int64, ok bool) {
		if ok && n > 0 {
			least = min(least, n)
		}
	}
	lower(totalMemory(root))
	lower(number(root, "sys/fs/cgroup/memory/memory.limit_in_bytes")) // version 1
	for _, group := range groups(root) {
		lower(number(root, "sys/fs/cgroup"+group+"memory.max"))
	}
	return least
}

// totalMemory reads the line "MemTotal: 16316412 kB".
func totalMemory(root fs.FS) (int64, bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) == 3 && string(f[0]) == "MemTotal:" {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// groups are the control group of this process (the line "0::/a/b") and those
// that it lies in, with a slash at both ends.
func groups(root fs.FS) []string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	all := []string{"/"}
	for line := range bytes.Lines(text) {
		path, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("0::/"))
		if !ok || len(path) == 0 {
			continue
		}
		path = append([]byte("/"), path...)
		for i := 1; i <= len(path); i++ {
			if i == len(path) || path[i] == '/' {
				all = append(all, string(path[:i])+"/")
			}
		}
	}
	return all
}

func number(root fs.FS, path string) (int64, bool) {
	text, err := fs.ReadFile(root, path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}
