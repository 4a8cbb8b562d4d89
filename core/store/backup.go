package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/plus3it/gorecurcopy"
)

// checkpointName begins the name of where a backup's copy is made: inside the
// data directory, and so on its file system.
const checkpointName = "checkpoint-"

// ErrBusy: another backup of the store is on its way.
var ErrBusy = errors.New("a backup is running already")

// Backup writes a copy of a running store into dir, which must not be there or
// be empty, on whatever file system. The copy is of one moment: what was
// committed before the call is in it, of what is committed meanwhile all up to
// some group. The data directory takes up to twice its room meanwhile, most of
// it in links. Errors: ErrBusy, ErrFailed, those of the disk. What is not
// complete is removed.
func Backup(s *Store, dir string) error {
	if s.opts.Disk.mem != nil {
		return errors.New("backup: the store is in memory")
	}
	if !s.backing.TryLock() {
		return fmt.Errorf("backup: %w", ErrBusy)
	}
	defer s.backing.Unlock()
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
// backup, which is not changed. Errors: ErrFormat (the backup is of a newer
// version), ErrCorrupt, those of the disk; the data directory is empty then.
func Restore(backup, dir string, log *slog.Logger) error {
	if err := emptyDir(RealDisk().fs, dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	names, err := RealDisk().fs.List(backup)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if currentManifest(names) == "" {
		return fmt.Errorf("restore: %s is no backup, or not a complete one", backup)
	}
	if err := copyDir(backup, dir); err != nil {
		return fmt.Errorf("restore: %w", err)
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

// copyDir copies the files of one directory into another one, which is made or
// is empty, and syncs them.
func copyDir(from, to string) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	err := gorecurcopy.CopyDirectory(from, to)
	if err == nil {
		err = syncCopy(from, to)
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
