package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plus3it/gorecurcopy"
)

// partName is a file in a directory that is being copied into: what has it is
// not complete.
const partName = "incomplete"

// checkpointName begins the name of where a backup's copy is made: inside the
// data directory, and so on its file system.
const checkpointName = "checkpoint-"

// Errors of Backup and Restore.
var (
	// ErrBusy: another backup of the store is on its way.
	ErrBusy = errors.New("a backup is running already")
	// ErrTarget: the directory to write into is not empty, or no fit place.
	ErrTarget = errors.New("not written to")
	// ErrInMemory: there is nothing on disk.
	ErrInMemory = errors.New("the store is in memory")
)

// Backup writes a copy of a running store into dir, which must not be there or
// be empty, on whatever file system. The copy is of one moment: what was
// committed before the call is in it, of what is committed meanwhile all up to
// some group. The data directory takes up to twice its room meanwhile, most of
// it in links. Errors: ErrBusy, ErrTarget, ErrInMemory, ErrFailed, those of the
// disk. What is not complete is removed, or refused by Restore.
func Backup(s *Store, dir string) error {
	if s.opts.Disk.mem != nil {
		return fmt.Errorf("backup: %w", ErrInMemory)
	}
	if !s.backing.TryLock() {
		return fmt.Errorf("backup: %w", ErrBusy)
	}
	defer s.backing.Unlock()
	if within(dir, s.dir) {
		return fmt.Errorf("backup: %w: %s is inside the data directory", ErrTarget, dir)
	}
	if err := emptyDir(s.fs, dir); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	// One that failed may still be written to by what failed.
	s.backups++
	temp := filepath.Join(s.dir, fmt.Sprint(checkpointName, s.backups))
	err := s.Checkpoint(temp)
	if err == nil {
		err = copyDir(temp, dir)
	}
	if err = errors.Join(err, s.fs.RemoveAll(temp)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// dropCheckpoints removes what a crash left of backups.
func (s *Store) dropCheckpoints() error {
	names, err := s.fs.List(s.dir)
	for _, name := range names {
		if strings.HasPrefix(name, checkpointName) {
			err = errors.Join(err, s.fs.RemoveAll(s.fs.PathJoin(s.dir, name)))
		}
	}
	return err
}

// Restore makes a data directory, which must not be there or be empty, from a
// backup, which is not changed. Errors: ErrInUse, ErrTarget, ErrFormat (the
// backup is of a newer version), ErrCorrupt, those of the disk; the data
// directory is as it was then.
func Restore(backup, dir string, log *slog.Logger) error {
	if err := free(dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	names, err := RealDisk().fs.List(backup)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if currentManifest(names) == "" || slices.Contains(names, partName) {
		return fmt.Errorf("restore: %s is no backup, or not a complete one", backup)
	}
	if within(dir, backup) {
		return fmt.Errorf("restore: %w: %s is inside the backup", ErrTarget, dir)
	}
	if err := copyDir(backup, dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// The data of a stopped broker has a reserve, which the next one makes anew.
	if err := os.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore: %w", errors.Join(err, clearDir(dir)))
	}
	// To open it is the best check there is.
	s, err := Open(dir, Options{Log: log, ReserveBytes: -1})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return fmt.Errorf("restore: %w", errors.Join(err, clearDir(dir)))
	}
	return nil
}

// free refuses a directory that a broker has, or that is not empty.
func free(dir string) error {
	disk := RealDisk().fs
	if _, err := disk.Stat(filepath.Join(dir, lockName)); err == nil {
		l, err := lockDir(disk, dir)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	return emptyDir(disk, dir)
}

// within tells whether a directory, which need not be there, is another one or
// inside it.
func within(dir, of string) bool {
	outer, err := os.Stat(of)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if i, err := os.Stat(dir); err == nil && os.SameFile(i, outer) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
}

// copyDir copies the files of one directory into another one, which is made or
// is empty, and syncs them.
func copyDir(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	part := filepath.Join(to, partName)
	err := os.WriteFile(part, nil, 0o600)
	if err == nil {
		err = syncPath(to)
	}
	if err == nil {
		err = gorecurcopy.CopyDirectory(from, to)
	}
	if err == nil {
		err = syncCopy(from, to)
	}
	if err == nil {
		err = errors.Join(os.Remove(part), syncPath(to))
	}
	if err != nil {
		return errors.Join(err, clearDir(to))
	}
	return nil
}

// syncCopy syncs a copy and compares its sizes: who copied did not look at the
// end of each file.
func syncCopy(from, to string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		want, err := e.Info()
		if err != nil {
			return err
		}
		return syncFile(filepath.Join(to, rel), want)
	})
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(filepath.Clean(to)))
}

func syncFile(name string, want fs.FileInfo) error {
	got, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !want.IsDir() && got.Size() != want.Size() {
		return fmt.Errorf("%s: %d bytes arrived of %d", name, got.Size(), want.Size())
	}
	return syncPath(name)
}

func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// clearDir removes what is in a directory.
func clearDir(dir string) error {
	names, err := os.ReadDir(dir)
	for _, e := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}
