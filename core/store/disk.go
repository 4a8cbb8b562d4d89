package store

import (
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Disk is where a store's files are: the operating system's, or one in memory
// that can lose power and fail on request, for tests.
type Disk struct {
	fs     vfs.FS
	mem    *vfs.MemFS
	faults *faults
}

// RealDisk is the operating system's.
func RealDisk() *Disk { return &Disk{fs: vfs.Default} }

// MemoryDisk returns an empty disk in memory.
func MemoryDisk() *Disk { return memoryDisk(vfs.NewCrashableMem()) }

func memoryDisk(mem *vfs.MemFS) *Disk {
	f := &faults{}
	return &Disk{fs: &faultyFS{errorfs.Wrap(mem, f), f}, mem: mem, faults: f}
}

// faultyFS also fails work on files that are used again, as the database does
// with its logs: errorfs gives those out as they are.
type faultyFS struct {
	vfs.FS
	faults *faults
}

// ReuseForWrite implements vfs.FS.
func (f *faultyFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.ReuseForWrite(oldname, newname, c)
	if err != nil {
		return nil, err
	}
	return errorfs.WrapFile(file, named{f.faults, newname}), nil
}

// named are the faults of a file that does not know its name.
type named struct {
	*faults
	name string
}

// MaybeError implements errorfs.Injector.
func (n named) MaybeError(op errorfs.Op) error {
	op.Path = n.name
	return n.faults.MaybeError(op)
}

// Crash is the disk as it is after a power cut now: what was synced, and of
// the rest the given percentage of blocks, chosen at random. The old disk
// stays as it is. Only for a MemoryDisk.
func (d *Disk) Crash(percent int, seed uint64) *Disk {
	return memoryDisk(d.mem.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, seed)),
	}))
}

// Fail makes one kind of work on files whose name contains part return err,
// until Heal: "create", "write" (with create), "sync", "read". Only for a
// MemoryDisk.
func (d *Disk) Fail(what, part string, err error) { d.faults.set(what, part, err) }

// Heal ends Fail.
func (d *Disk) Heal() { d.faults.set("", "", nil) }

// onFault has f called at every fault.
func (d *Disk) onFault(f func()) {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.struck = f
}

// faults is the injector behind Fail.
type faults struct {
	mu         sync.Mutex
	what, part string
	err        error
	struck     func()
}

func (f *faults) set(what, part string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.what, f.part, f.err = what, part, err
}

// String implements errorfs.Injector.
func (f *faults) String() string { return "faults" }

// MaybeError implements errorfs.Injector.
func (f *faults) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	kind := kindOf(op.Kind)
	if f.err == nil || !strings.Contains(op.Path, f.part) || kind != f.what && (kind != "create" || f.what != "write") {
		return nil
	}
	if f.struck != nil {
		f.struck()
	}
	return f.err
}

func kindOf(k errorfs.OpKind) string {
	switch k {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return "sync"
	case errorfs.OpFileRead, errorfs.OpFileReadAt:
		return "read"
	case errorfs.OpCreate, errorfs.OpReuseForWrite:
		return "create"
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate:
		return "write"
	}
	return ""
}

// FlipBit changes one bit of a file. Only for a MemoryDisk with no store open.
func (d *Disk) FlipBit(name string, offset int64) error {
	f, err := d.mem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer f.Close()
	b := []byte{0}
	if _, err := f.ReadAt(b, offset); err != nil {
		return err
	}
	b[0] ^= 0x10
	if _, err = f.WriteAt(b, offset); err != nil {
		return err
	}
	return f.Sync()
}

// List names the files of a directory.
func (d *Disk) List(dir string) ([]string, error) { return d.fs.List(dir) }

// Size is a file's length in bytes.
func (d *Disk) Size(name string) (int64, error) {
	i, err := d.fs.Stat(name)
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
