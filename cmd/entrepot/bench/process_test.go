package bench

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4711 (a) b (c) S 12 4711 4711 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 9 0 1 2 3"
	s, ok := parseStat(line)
	want := stat{parent: 12, own: 2 * time.Second, ended: 100 * time.Millisecond}
	if !ok || s != want {
		t.Errorf("got %+v, %v; want %+v", s, ok, want)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S 12 4711 4711 0 -1 4194560 1 2 3 4 a 50 7 3 20"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestResidentIn(t *testing.T) {
	if got := residentIn([]byte("VmHWM:\t    999 kB\nVmRSS:\t    1234 kB\nThreads:\t1\n")); got != 1234 {
		t.Errorf("got %d", got)
	}
	if got := residentIn([]byte("State:\tZ (zombie)\n")); got != 0 {
		t.Errorf("a zombie has %d", got)
	}
}

func TestWatchThisProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	p, err := watch([]int{os.Getpid()}, true)
	if err != nil {
		t.Fatal(err)
	}
	if p.resident() < 1000 {
		t.Errorf("%d KiB resident", p.resident())
	}
	if _, err := p.cpu(); err != nil {
		t.Error(err)
	}
	if p, err = watch([]int{os.Getppid()}, true); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, pid := range p.all {
		found = found || pid == os.Getpid()
	}
	if !found {
		t.Errorf("%d is not among the descendants of its parent: %v", os.Getpid(), p.all)
	}
	if _, err := watch([]int{1 << 30}, false); err == nil {
		t.Error("a process that does not exist is watched")
	}
}
