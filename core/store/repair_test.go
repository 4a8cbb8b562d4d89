package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// files are the contents of all files of a directory.
func files(t *testing.T, d *Disk, dir string) map[string]string {
	t.Helper()
	names, err := d.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		b, err := readFile(d.fs, d.fs.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// saved repairs a disk's directory and reads the outcome.
func saved(t *testing.T, d *Disk) (map[string]string, Report) {
	t.Helper()
	before := files(t, d, "data")
	to := MemoryDisk()
	rep, err := repair(d, "data", to, "saved", quiet())
	if err != nil {
		t.Fatalf("repair: %v", err)
	}
	if after := files(t, d, "data"); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatal("repair changed the original")
	}
	// On the disk, not only in memory.
	s, err := Open("saved", Options{Disk: to.Crash(0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := content(s)
	if err != nil {
		t.Fatalf("content after repair: %v", err)
	}
	if uint64(len(got)) != rep.Keys {
		t.Fatalf("%d keys saved, report says %d", len(got), rep.Keys)
	}
	if err := commit(s, true, "x", "1"); err != nil {
		t.Fatal(err)
	}
	return got, rep
}

// covered tells whether the report owns up to a lost key.
func covered(rep Report, key string) bool {
	for _, l := range rep.Lost {
		if len(l.Ranges) == 0 {
			return true
		}
		for _, r := range l.Ranges {
			if bytes.Compare(r.First, []byte(key)) <= 0 && bytes.Compare([]byte(key), r.End) <= 0 {
				return true
			}
		}
	}
	return false
}

// compare wants all that is not owned up to, nothing else, and at most a number
// of keys lost.
func compare(t *testing.T, what string, got, want map[string]string, rep Report, most int) {
	t.Helper()
	lost := 0
	for k, v := range want {
		if got[k] == v {
			continue
		}
		if _, there := got[k]; there {
			t.Fatalf("%s: %s is %q, want %q", what, k, got[k], v)
		}
		if lost++; !covered(rep, k) {
			t.Fatalf("%s: %s is lost and the report does not say so: %v", what, k, rep.Lost)
		}
	}
	if lost > most {
		t.Fatalf("%s: %d of %d keys are lost: %v", what, lost, len(want), rep.Lost)
	}
	for k := range got {
		if _, ok := want[k]; !ok && len(rep.Lost) == 0 && !rep.Guessed {
			t.Fatalf("%s: %s was removed and is back", what, k)
		}
	}
}

func TestRepairOfWhatIsWhole(t *testing.T) {
	d, want := written(t, 400)
	got, rep := saved(t, d)
	compare(t, "whole", got, want, rep, 0)
	if len(rep.Lost) > 0 || rep.Guessed {
		t.Fatalf("report %+v", rep)
	}
}

// Whatever file is damaged, what lies elsewhere is saved, and the report says
// where the rest lay.
// It shows fault 70.
func TestRepairAfterFlippedBit(t *testing.T) {
	before, want := written(t, 400)
	for _, c := range []struct {
		kind string
		most int // keys lost by one flip
	}{{logSuffix, 8}, {"MANIFEST", 0}, {"OPTIONS", 0}, {tableSuffix, len(want)}} {
		for _, name := range filesOf(t, before, c.kind) {
			size, err := before.Size(name)
			if err != nil {
				t.Fatal(err)
			}
			for off := int64(0); off < size; off += max(size/12, 1) {
				d := before.Crash(100, 1)
				if err := d.FlipBit(name, off); err != nil {
					t.Fatal(err)
				}
				got, rep := saved(t, d)
				compare(t, fmt.Sprintf("%s, byte %d of %d", name, off, size), got, want, rep, c.most)
			}
		}
	}
}

// A large table has an index of two levels; damage to a lower part of it costs
// that part.
func TestRepairOfLargeTable(t *testing.T) {
	before := MemoryDisk()
	s := openMem(t, before)
	want := map[string]string{}
	noise := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		var b Batch
		for j := range 1000 {
			k, v := fmt.Sprintf("q0/%06d", 1000*i+j), fmt.Sprint(noise.Uint64(), noise.Uint64(), noise.Uint64())
			b.Set([]byte(k), []byte(v))
			want[k] = v
		}
		s.Commit(&b, false, nil)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := aliveTable(t, before)
	table, err := openTable(before.fs, name)
	if err != nil {
		t.Fatal(err)
	}
	if table.levels != 2 || table.recorded < 20_000 {
		t.Fatalf("an index of %d levels, %d keys", table.levels, table.recorded)
	}
	if err := table.close(); err != nil {
		t.Fatal(err)
	}
	size, err := before.Size(name)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]int{}
	offs := []int64{0, size / 3, size / 2, size * 2 / 3}
	for off := size - 15_000; off < size; off += 1500 { // where the index is
		offs = append(offs, off)
	}
	for _, off := range offs {
		d := before.Crash(100, 1)
		if err := d.FlipBit(name, off); err != nil {
			t.Fatal(err)
		}
		got, rep := saved(t, d)
		compare(t, fmt.Sprintf("byte %d of %d", off, size), got, want, rep, len(want))
		switch lost := len(want) - len(got); {
		case lost == 0:
			parts["nothing"]++
		case lost < 200:
			parts["a block"]++
		case lost < len(want):
			parts["part of the index"]++
		default:
			parts["all"]++
		}
		// The version's own key may be among them.
		if lost := len(want) - len(got); len(rep.Lost) > 0 && rep.Lost[0].Keys > 0 && int(rep.Lost[0].Keys)-lost > 1 {
			t.Fatalf("byte %d: %d keys are lost, the report says %v", off, lost, rep.Lost)
		}
	}
	t.Logf("flips that cost: %v", parts)
	if parts["all"] > 5 || parts["part of the index"] == 0 {
		t.Fatalf("flips that cost: %v", parts)
	}
}

// Reads of a slow disk are told to a tracer, which has to be there: without it
// each block that took long would count as lost.
func TestRepairHasATracerForSlowReads(t *testing.T) {
	if o := blockOptions(); o.LoggerAndTracer == nil || o.LoggerAndTracer.IsTracingEnabled(t.Context()) {
		t.Errorf("%+v", o)
	}
}

// Where names are missing all tables and logs count.
func TestRepairWithoutManifest(t *testing.T) {
	before, want := written(t, 400)
	for _, kind := range []string{manifestMarker, "MANIFEST", "marker", "OPTIONS"} {
		d := before.Crash(100, 1)
		for _, name := range filesOf(t, d, kind) {
			remove(t, d, name)
		}
		got, rep := saved(t, d)
		compare(t, kind, got, want, rep, 0)
	}
	manifest := filesOf(t, before, "MANIFEST")[0]
	size, err := before.Size(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for left := int64(0); left < size; left += 41 {
		d := before.Crash(100, 1)
		cut(t, d, manifest, int(left))
		got, rep := saved(t, d)
		compare(t, fmt.Sprintf("cut to %d bytes", left), got, want, rep, 0)
	}
	d := before.Crash(100, 1)
	zero(t, d, manifest, 0, 64)
	got, rep := saved(t, d)
	compare(t, "zeroed", got, want, rep, 0)
	if len(rep.Lost) == 0 || !rep.Guessed {
		t.Fatalf("report %+v", rep)
	}
}

// A range that was removed stays removed.
func TestRepairKeepsRemovals(t *testing.T) {
	d := MemoryDisk()
	s, err := Open("data", Options{Disk: d, memTable: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	put := func(f func(*Batch)) {
		var b Batch
		f(&b)
		s.Commit(&b, false, nil)
	}
	for i := range 3000 {
		put(func(b *Batch) { b.Set(fmt.Appendf(nil, "q%d/%06d", i%4, i), bytes.Repeat([]byte("v"), 50)) })
	}
	put(func(b *Batch) { b.DeleteRange([]byte("q1/"), []byte("q2/000500")) })
	put(func(b *Batch) { b.Delete([]byte("q3/000003")) })
	put(func(b *Batch) { b.Set([]byte("q1/000009"), []byte("again")) })
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	want, err := content(s)
	if err != nil {
		t.Fatal(err)
	}
	got, rep := saved(t, d.Crash(0, 1))
	compare(t, "removals", got, want, rep, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	got, rep = saved(t, d)
	compare(t, "removals after Close", got, want, rep, 0)
}

// TestRepairRefuses shows fault 94.
func TestRepairRefuses(t *testing.T) {
	d, _ := written(t, 3)
	if _, err := repair(d, "nowhere", MemoryDisk(), "saved", quiet()); err == nil {
		t.Error("no directory")
	}
	if err := d.mem.MkdirAll("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := repair(d, "empty", MemoryDisk(), "saved", quiet()); err == nil || !strings.Contains(err.Error(), "no data directory") {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := repair(d, "data", d, "data", quiet()); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("onto itself: %v", err)
	}
	s := openMem(t, d)
	if _, err := repair(d, "data", MemoryDisk(), "saved", quiet()); !errors.Is(err, ErrInUse) {
		t.Errorf("of a store in use: %v", err)
	}
	if err := commit(s, true, string(formatKey), "\x00\x00\x00\x02"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := repair(d, "data", MemoryDisk(), "saved", quiet()); !errors.Is(err, ErrFormat) {
		t.Errorf("of a newer version: %v", err)
	}
	if _, err := Open("data", Options{Disk: d}); !errors.Is(err, ErrFormat) {
		t.Errorf("open of a newer version: %v", err)
	}
}
