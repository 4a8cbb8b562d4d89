package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/fstest"
	"time"

	"entrepot/conf"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ live, headroom, want uint64 }{
		{0, 64 * mib, 1600}, {mib, 64 * mib, 1625}, {4 * mib, 64 * mib, 1600},
		{8 * mib, 64 * mib, 800}, {48 * mib, 64 * mib, 134}, {64 * mib, 64 * mib, 100}, {1024 * mib, 64 * mib, 100},
		{0, 0, 100}, {8*mib + 1, 64 * mib, 800},
	} {
		if got := percentFor(c.live, c.headroom); got != c.want {
			t.Errorf("live %d, headroom %d: %d %%, want %d", c.live, c.headroom, got, c.want)
		}
	}
}

// heap is what the runtime says: live bytes after the last collection, and the
// heap size of the next.
func heap() (live, goal, percent uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64()
}

// collectUntil collects until the adjustment, which follows a collection by
// itself, is to be seen.
func collectUntil(t *testing.T, what string, seen func(live, goal, percent uint64) bool) {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		runtime.GC()
		live, goal, percent := heap()
		if seen(live, goal, percent) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: live %d, goal %d, %d %%", what, live, goal, percent)
		}
	}
}

func TestHeadroomFollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	const headroom = 64 << 20
	limitBefore := debug.SetMemoryLimit(-1)
	stop := setMemory(conf.Process{GCHeadroom: headroom, MemoryLimit: 8 << 30})
	defer debug.SetGCPercent(usualPercent)
	defer debug.SetMemoryLimit(limitBefore)
	if got := debug.SetMemoryLimit(-1); got != 8<<30 {
		t.Errorf("memory limit %d", got)
	}
	far := func(live, goal, _ uint64) bool { return goal-live >= headroom }
	if live, goal, percent := heap(); !far(live, goal, percent) {
		t.Errorf("at once: live %d, goal %d", live, goal)
	}
	collectUntil(t, "small heap", far)
	large := make([]byte, 192<<20)
	collectUntil(t, "large heap", func(live, goal, percent uint64) bool { return percent == usualPercent && far(live, goal, 0) })
	runtime.KeepAlive(large)
	collectUntil(t, "small heap again", func(live, goal, percent uint64) bool { return percent > usualPercent && far(live, goal, 0) })
	stop()
}

// What the environment says to the Go runtime goes before the settings.
func TestRuntimeVariablesGoBefore(t *testing.T) {
	t.Setenv("GOGC", "50")
	t.Setenv("GOMEMLIMIT", "1GiB")
	percent := debug.SetGCPercent(77)
	defer debug.SetGCPercent(percent)
	before := debug.SetMemoryLimit(-1)
	setMemory(conf.DefaultConfig().Process)()
	if _, _, percent := heap(); percent != 77 {
		t.Errorf("%d %%", percent)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("memory limit %d", got)
	}
}

func TestMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const info = "MemTotal:       16000000 kB\nMemFree: 1 kB\n"
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int64
	}{
		{"nothing to read", fstest.MapFS{}, math.MaxInt64},
		{"machine", fstest.MapFS{"proc/meminfo": file(info)}, 16000000 << 10},
		{"nonsense", fstest.MapFS{"proc/meminfo": file("MemTotal: x kB\n"), "sys/fs/cgroup/memory.max": file("")}, math.MaxInt64},
		{"container, version 2", fstest.MapFS{"proc/meminfo": file(info), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("536870912\n")}, 512 << 20},
		{"no limit, version 2", fstest.MapFS{"proc/meminfo": file(info), "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("max\n")}, 16000000 << 10},
		{"service in a slice", fstest.MapFS{"proc/meminfo": file(info), "proc/self/cgroup": file("0::/a.slice/b.service\n"),
			"sys/fs/cgroup/a.slice/memory.max": file("1000000000\n"), "sys/fs/cgroup/a.slice/b.service/memory.max": file("max\n")}, 1000000000},
		{"container, version 1", fstest.MapFS{"proc/meminfo": file(info), "proc/self/cgroup": file("4:memory:/x\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("268435456\n")}, 256 << 20},
		{"no limit, version 1", fstest.MapFS{"proc/meminfo": file(info),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 16000000 << 10},
	} {
		if got := memory(c.root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := threeQuarters(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("no limit became %d", got)
	}
	if got := threeQuarters(1000); got != 750 {
		t.Errorf("%d", got)
	}
}
