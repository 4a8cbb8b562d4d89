package store

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// eager is a file system whose files count the bytes that they get before they
// need them.
type eager struct {
	vfs.FS
	taken int64
}

type eagerFile struct {
	vfs.File
	fs *eager
}

func (e *eager) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := e.FS.Create(name, c)
	return &eagerFile{f, e}, err
}

func (f *eagerFile) Preallocate(_, length int64) error {
	f.fs.taken += length
	return nil
}

// Logs take blocks before they need them only where they cannot fill the disk:
// a small one would be full of logs that are nearly empty.
func TestNothingIsPreallocatedWhereRoomIsShort(t *testing.T) {
	const length = 16 << 20
	for _, free := range []uint64{0, length, 4 * length, preallocateRoom*length - 1, preallocateRoom * length, 1 << 40} {
		mem := vfs.NewMem()
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: free})
		under := &eager{FS: mem}
		if err := mem.MkdirAll("data", 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := newFence(under, "data", nil).Create("data/1.log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Preallocate(0, length); err != nil {
			t.Errorf("%d bytes free: %v", free, err)
		}
		if got, want := under.taken > 0, free >= preallocateRoom*length; got != want {
			t.Errorf("%d bytes free: preallocated is %v", free, got)
		}
	}
}

// Clients get to see why a store failed. They do not get to see where its files are.
// It shows fault 58.
func TestReasonOfAFailureNamesNoFile(t *testing.T) {
	d := MemoryDisk()
	s := openMem(t, d)
	defer s.Close()
	d.Fail("write", ".log", syscall.ENOSPC)
	err := commit(s, true, "a", "1")
	if !errors.Is(err, ErrFailed) || err.Error() != "store failed: no space left on device" {
		t.Errorf("got %v", err)
	}
	d.Heal()
}
