package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Names of the database's files.
const (
	manifestMarker = "marker.manifest."
	manifestPrefix = "MANIFEST-"
	logSuffix      = ".log"
	tableSuffix    = ".sst"
)

// fileNumber is the number in a log's or table's name.
func fileNumber(name, suffix string) (uint64, bool) {
	base, ok := strings.CutSuffix(name, suffix)
	n, err := strconv.ParseUint(base, 10, 64)
	return n, ok && err == nil
}

// currentManifest is the name of the manifest in use, "" when none is.
func currentManifest(names []string) string {
	newest, manifest := -1, ""
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, manifestMarker)
		number, target, cut := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); ok && cut && err == nil && n > newest {
			newest, manifest = n, target
		}
	}
	return manifest
}

// inspect refuses a directory that the database would open with a loss: it
// begins anew where the name of its manifest is missing, and takes damage in
// manifest and log for their end where it has no proof of the contrary.
func inspect(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if slices.Contains(names, partName) {
		return fmt.Errorf("data directory %s is not complete: a restore or backup into it was interrupted; empty it and do that again", dir)
	}
	current := currentManifest(names)
	oldest := uint64(0)
	if current != "" {
		b, err := readFile(fsys, fsys.PathJoin(dir, current))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("data directory %s: %w", dir, damaged(err))
		}
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		m, whole := readManifest(b)
		if !whole {
			return fmt.Errorf("data directory %s: %w", dir, damaged(errors.New(current+" does not fit its checksums")))
		}
		oldest = m.oldest
	}
	for _, name := range names {
		if err := inspectFile(fsys, dir, name, current, oldest); err != nil {
			return err
		}
	}
	return nil
}

func inspectFile(fsys vfs.FS, dir, name, manifest string, oldest uint64) error {
	if _, table := fileNumber(name, tableSuffix); table && manifest == "" {
		return fmt.Errorf("data directory %s: %w", dir, damaged(errors.New("there is data, and no name of a manifest")))
	}
	number, log := fileNumber(name, logSuffix)
	if !log || number < oldest {
		return nil
	}
	b, err := readFile(fsys, fsys.PathJoin(dir, name))
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if manifest == "" && len(b) > 0 {
		return fmt.Errorf("data directory %s: %w", dir, damaged(errors.New("there is a log, and no name of a manifest")))
	}
	if at := (&logFile{b, uint32(number)}).damage(); at >= 0 {
		return fmt.Errorf("data directory %s: %w", dir, damaged(fmt.Errorf("log %s does not fit its checksums at byte %d", name, at)))
	}
	return nil
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
