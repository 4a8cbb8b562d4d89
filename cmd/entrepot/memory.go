package main

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// memoryBase is what the memory alarm's mark is a part of: what the process may
// use, as setMemory left it, and a third more; 0 is not known.
func memoryBase() uint64 {
	base := memory(os.DirFS("/"))
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64/4*3 {
		base = min(base, limit/3*4)
	}
	if base == math.MaxInt64 {
		return 0
	}
	return uint64(base)
}

// memoryMeter finds out what the process uses and cannot give back. Used by one
// goroutine.
type memoryMeter struct {
	root    fs.FS
	collect func()
	last    time.Time // of collect
}

// betweenCollects is the least time between two collections that the meter asks
// for.
const betweenCollects = 2 * time.Second

func newMemoryMeter() *memoryMeter { return &memoryMeter{root: os.DirFS("/"), collect: runtime.GC} }

// used is at most what is held from the system. When that is beyond the edge
// and much of it may be garbage, a collection tells.
func (m *memoryMeter) used(edge uint64) uint64 {
	held, kept := m.read()
	if held > edge && time.Since(m.last) >= betweenCollects {
		m.collect()
		m.last = time.Now()
		held, kept = m.read()
	}
	return min(held, kept)
}

// read returns the bytes that are held, garbage and all, and those that the last
// collection found to be needed.
func (m *memoryMeter) read() (held, kept uint64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(s)
	mapped := s[0].Value.Uint64() - s[1].Value.Uint64()
	objects, live := s[4].Value.Uint64(), s[5].Value.Uint64()
	rest := mapped - s[2].Value.Uint64() - s[3].Value.Uint64() - objects
	foreign := uint64(0) // what is not Go's
	if resident := residentOwn(m.root); resident > mapped {
		foreign = resident - mapped
	}
	return rest + objects + foreign, rest + live + foreign
}

// residentOwn is the memory of the process that no file is behind, from the
// second and third number of /proc/self/statm, in pages; 0 where that is not
// there.
func residentOwn(root fs.FS) uint64 {
	text, err := fs.ReadFile(root, "proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseUint(f[1], 10, 48)
	shared, err2 := strconv.ParseUint(f[2], 10, 48)
	if err1 != nil || err2 != nil || shared > resident {
		return 0
	}
	return (resident - shared) * uint64(os.Getpagesize())
}
