package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// written is a disk as a power cut left it, with tables, a manifest and a log
// that counts, and what was confirmed on it.
func written(t testing.TB, groups int) (*Disk, map[string]string) {
	t.Helper()
	d := MemoryDisk()
	s, err := Open("data", Options{Disk: d, memTable: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range groups {
		var b Batch
		for j := range 8 {
			k := fmt.Sprintf("q%d/%06d", j%4, 8*i+j)
			v := strings.Repeat(fmt.Sprint(i), 1+i%40)
			b.Set([]byte(k), []byte(v))
			want[k] = v
		}
		// Some that go again, in all ways.
		if i%3 == 2 {
			gone := fmt.Sprintf("q%d/%06d", 0, 8*(i-2))
			b.DeleteOnce([]byte(gone))
			delete(want, gone)
		}
		done := make(chan error, 1)
		s.Commit(&b, true, func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	after := d.Crash(0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return after, want
}

// filesOf names the files of a kind in the data directory.
func filesOf(t testing.TB, d *Disk, kind string) []string {
	t.Helper()
	names, err := d.List("data")
	if err != nil {
		t.Fatal(err)
	}
	var fit []string
	for _, name := range names {
		if strings.HasSuffix(name, kind) || strings.HasPrefix(name, kind) {
			fit = append(fit, d.fs.PathJoin("data", name))
		}
	}
	slices.Sort(fit)
	return fit
}

// content reads all of a store that written writes.
func content(s *Store) (got map[string]string, damaged error) {
	got = map[string]string{}
	for q := range 4 {
		first, end := fmt.Sprintf("q%d/", q), fmt.Sprintf("q%d0", q)
		err := s.Scan([]byte(first), []byte(end), func(k, v []byte) bool {
			got[string(k)] = string(v)
			return true
		})
		damaged = errors.Join(damaged, err)
	}
	return got, damaged
}

// places are n offsets all over a file.
func places(size, n int64) []int64 {
	var list []int64
	for off := int64(0); off < size; off += max(size/n, 1) {
		list = append(list, off)
	}
	return list
}

// lastBytes are the last n bytes of a file that are not zero.
func lastBytes(t *testing.T, d *Disk, name string, n int) []int64 {
	t.Helper()
	b, err := readFile(d.fs, name)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	var list []int64
	for off := max(end-n, 0); off < end; off++ {
		list = append(list, int64(off))
	}
	return list
}

// One flipped bit in log or manifest: the start is refused with a word on
// repair, or nothing is lost.
// It shows fault 70.
func TestFlippedBitInLogAndManifest(t *testing.T) {
	before, want := written(t, 400)
	for _, kind := range []string{".log", "MANIFEST", "OPTIONS"} {
		refused := 0
		for _, name := range filesOf(t, before, kind) {
			size, err := before.Size(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, off := range append(places(size, 40), lastBytes(t, before, name, 60)...) {
				d := before.Crash(100, 1)
				if err := d.FlipBit(name, off); err != nil {
					t.Fatal(err)
				}
				s, err := Open("data", Options{Disk: d})
				if err != nil {
					refused++
					if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "entrepot repair") {
						t.Fatalf("%s, byte %d: %v", name, off, err)
					}
					continue
				}
				got, err := content(s)
				if err != nil {
					t.Fatalf("%s, byte %d: %v", name, off, err)
				}
				for k, v := range want {
					if got[k] != v {
						t.Fatalf("%s, byte %d of %d: %s is gone and nobody was told", name, off, size, k)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%s: %d flips were refused", kind, refused)
	}
}

// One flipped bit in a table: the store opens, what lies in other blocks is
// served, nothing false is, and where the damage is is told.
// It shows fault 70.
func TestFlippedBitInTable(t *testing.T) {
	before, want := written(t, 400)
	keys := slices.Sorted(maps.Keys(want))
	whole := 0
	for _, name := range filesOf(t, before, tableSuffix) {
		size, err := before.Size(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range places(size, 12) {
			d := before.Crash(100, 1)
			if err := d.FlipBit(name, off); err != nil {
				t.Fatal(err)
			}
			s, err := Open("data", Options{Disk: d})
			if err != nil {
				t.Fatalf("%s, byte %d: %v", name, off, err)
			}
			served, lost := 0, 0
			for i, k := range keys {
				if (int64(i)+off)%17 != 0 {
					continue
				}
				v := want[k]
				got, ok, err := s.Get([]byte(k))
				switch {
				case err == nil && ok && string(got) == v:
					served++
				case errors.Is(err, ErrCorrupt):
					lost++
				default:
					t.Fatalf("%s, byte %d: %s is %q, %v", name, off, k, got, err)
				}
			}
			if lost > 0 && len(s.Damaged()) == 0 {
				t.Fatalf("%s, byte %d: %d keys cannot be read and no range is told", name, off, lost)
			}
			if lost == 0 {
				whole++
			}
			if served < len(keys)/17/5 {
				t.Fatalf("%s, byte %d: only %d keys are served, %d are not", name, off, served, lost)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d flips changed nothing that was read", whole)
}

// Files that are gone, or a page of them.
// It shows fault 70.
func TestMissingFiles(t *testing.T) {
	before, _ := written(t, 400)
	for _, c := range []struct {
		what   string
		damage func(d *Disk)
	}{
		{"name of the manifest", func(d *Disk) { remove(t, d, filesOf(t, d, manifestMarker)[0]) }},
		{"manifest", func(d *Disk) { remove(t, d, filesOf(t, d, "MANIFEST")[0]) }},
		{"manifest and its name", func(d *Disk) {
			remove(t, d, filesOf(t, d, "MANIFEST")[0])
			remove(t, d, filesOf(t, d, manifestMarker)[0])
		}},
		{"name of the format", func(d *Disk) { remove(t, d, filesOf(t, d, "marker.format")[0]) }},
		{"table", func(d *Disk) { remove(t, d, aliveTable(t, d)) }},
		{"end of a table", func(d *Disk) { cut(t, d, aliveTable(t, d), 4096) }},
		{"page of the manifest", func(d *Disk) { zero(t, d, filesOf(t, d, "MANIFEST")[0], 0, 4096) }},
		{"part of the log", func(d *Disk) { zero(t, d, newest(t, d, logSuffix), 1000, 1000) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := before.Crash(100, 1)
			c.damage(d)
			names := fmt.Sprint(filesOf(t, d, tableSuffix))
			_, err := Open("data", Options{Disk: d})
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "entrepot repair") {
				t.Fatalf("Open: %v", err)
			}
			if now := fmt.Sprint(filesOf(t, d, tableSuffix)); now != names {
				t.Fatalf("Open left tables %s of %s", now, names)
			}
		})
	}
}

// A start that was cut off in the making of an empty store is no damage.
func TestCrashInFirstOpen(t *testing.T) {
	for seed := range uint64(50) {
		d := MemoryDisk()
		d.onFault(nil)
		s := openMem(t, d)
		after := d.Crash(int(seed*2), seed)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openMem(t, after)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, d *Disk, name string) {
	t.Helper()
	if err := d.mem.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// aliveTable is one that the manifest has.
func aliveTable(t *testing.T, d *Disk) string {
	t.Helper()
	names, err := d.List("data")
	if err != nil {
		t.Fatal(err)
	}
	b, err := readFile(d.fs, d.fs.PathJoin("data", currentManifest(names)))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := readManifest(b)
	for n := range m.tables {
		return d.fs.PathJoin("data", fmt.Sprintf("%06d%s", n, tableSuffix))
	}
	t.Fatal("no table")
	panic("unreachable")
}

// newest is the file of a kind with the highest number.
func newest(t *testing.T, d *Disk, kind string) string {
	t.Helper()
	names := filesOf(t, d, kind)
	return names[len(names)-1]
}

// cut leaves the first n bytes of a file.
func cut(t *testing.T, d *Disk, name string, n int) {
	t.Helper()
	b, err := readFile(d.mem, name)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, d, name, b[:n])
}

// zero clears n bytes of a file.
func zero(t *testing.T, d *Disk, name string, off, n int) {
	t.Helper()
	b, err := readFile(d.mem, name)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[off:min(off+n, len(b))])
	rewrite(t, d, name, b)
}

func rewrite(t *testing.T, d *Disk, name string, b []byte) {
	t.Helper()
	f, err := d.mem.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}
