package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fence stands between one opening of the database and its files. The database
// cannot live on after a failed write: it ends the process, or tries the same
// again without a pause. So it never sees one. At the first write that fails
// the fence shuts: that goroutine and every other one that comes to write
// stops there for good, while reads go on. A new opening, behind a fence of its
// own, takes over the files when the disk works again. What a shut fence holds
// is not given back before the process ends: some megabytes for each failure.
type fence struct {
	vfs.FS
	dir    string
	failed func(error) // called once, by who met the first failure

	shut   atomic.Bool
	err    error         // why, before broken is closed
	broken chan struct{} // closed when shut
	ops    sync.RWMutex  // held shared by every write that runs
}

func newFence(under vfs.FS, dir string, failed func(error)) *fence {
	return &fence{FS: under, dir: dir, failed: failed, broken: make(chan struct{})}
}

// close shuts the fence; true for the first.
func (f *fence) close(err error) bool {
	if f.shut.Swap(true) {
		return false
	}
	f.err = err
	close(f.broken)
	return true
}

// quiet waits for the writes that run. The fence is shut.
func (f *fence) quiet() {
	f.ops.Lock()
	defer f.ops.Unlock()
}

// fail shuts the fence and stops the goroutine.
func (f *fence) fail(err error) {
	if f.close(err) {
		f.failed(err)
	}
	park()
}

// park ends the work of a goroutine, with whatever locks of the database it
// holds: giving them up would let others go on in a broken state.
func park() { select {} }

// pass does what changes files, unless the fence is shut. Its error is the
// database's to handle.
func (f *fence) pass(op func() error) error {
	f.ops.RLock()
	if f.shut.Load() {
		f.ops.RUnlock()
		park()
	}
	defer f.ops.RUnlock()
	return op()
}

// must is pass for what may not fail.
func (f *fence) must(what, name string, op func() error) {
	err := f.pass(op)
	if err == nil {
		return
	}
	if named := (*fs.PathError)(nil); !errors.As(err, &named) {
		err = fmt.Errorf("%s %s: %w", what, name, err)
	}
	f.fail(err)
}

// inside tells the database's own files from those of a checkpoint.
func (f *fence) inside(name string) bool { return f.PathDir(name) == f.dir }

// file is f's shadow of a file that is written.
func (f *fence) file(name string, open func() (vfs.File, error)) (file vfs.File, err error) {
	if !f.inside(name) {
		return open()
	}
	f.must("open", name, func() error {
		file, err = open()
		return err
	})
	return &fencedFile{file, f, name}, nil
}

// Create implements vfs.FS.
func (f *fence) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// ReuseForWrite implements vfs.FS.
func (f *fence) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(newname, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, c) })
}

// OpenReadWrite implements vfs.FS.
func (f *fence) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

// OpenDir implements vfs.FS: a directory is opened to be synced.
func (f *fence) OpenDir(name string) (vfs.File, error) {
	d, err := f.FS.OpenDir(name)
	if err != nil || name != f.dir {
		return d, err
	}
	return &fencedFile{d, f, name}, nil
}

// Rename implements vfs.FS.
func (f *fence) Rename(oldname, newname string) error {
	if !f.inside(newname) {
		return f.FS.Rename(oldname, newname)
	}
	f.must("rename to", newname, func() error { return f.FS.Rename(oldname, newname) })
	return nil
}

// Link implements vfs.FS.
func (f *fence) Link(oldname, newname string) error {
	return f.pass(func() error { return f.FS.Link(oldname, newname) })
}

// Remove implements vfs.FS. What cannot be removed stays.
func (f *fence) Remove(name string) error {
	return f.pass(func() error { return f.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (f *fence) RemoveAll(name string) error {
	return f.pass(func() error { return f.FS.RemoveAll(name) })
}

// MkdirAll implements vfs.FS.
func (f *fence) MkdirAll(dir string, perm os.FileMode) error {
	return f.pass(func() error { return f.FS.MkdirAll(dir, perm) })
}

// Lock implements vfs.FS: the store holds a lock of its own.
func (f *fence) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Unwrap implements vfs.FS.
func (f *fence) Unwrap() vfs.FS { return f.FS }

// fencedFile is a file that is written behind a fence.
type fencedFile struct {
	vfs.File
	f    *fence
	name string
}

// Write implements vfs.File.
func (w *fencedFile) Write(p []byte) (n int, err error) {
	w.f.must("write", w.name, func() error { n, err = w.File.Write(p); return err })
	return n, nil
}

// WriteAt implements vfs.File.
func (w *fencedFile) WriteAt(p []byte, at int64) (n int, err error) {
	w.f.must("write", w.name, func() error { n, err = w.File.WriteAt(p, at); return err })
	return n, nil
}

// preallocateRoom is how many times its length has to be free for a file to get
// its blocks before it needs them.
const preallocateRoom = 16

// Preallocate implements vfs.File; it is a hint. What a log was given and does
// not fill stays taken until the log goes: where room is short that would be
// most of it, so there it is left out.
func (w *fencedFile) Preallocate(offset, length int64) error {
	u, err := w.f.GetDiskUsage(w.f.dir)
	if err != nil || u.AvailBytes/preallocateRoom < uint64(length) {
		return nil
	}
	return w.f.pass(func() error { return w.File.Preallocate(offset, length) })
}

// Sync implements vfs.File.
func (w *fencedFile) Sync() error {
	w.f.must("sync", w.name, w.File.Sync)
	return nil
}

// SyncData implements vfs.File.
func (w *fencedFile) SyncData() error {
	w.f.must("sync", w.name, w.File.SyncData)
	return nil
}

// SyncTo implements vfs.File.
func (w *fencedFile) SyncTo(length int64) (full bool, err error) {
	w.f.must("sync", w.name, func() error { full, err = w.File.SyncTo(length); return err })
	return full, nil
}

// Close implements vfs.File: some file systems tell of a failed write only
// here.
func (w *fencedFile) Close() error {
	w.f.must("close", w.name, w.File.Close)
	return nil
}
