package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Report is what a repair found.
type Report struct {
	Keys  uint64 // saved
	Bytes uint64 // of keys and values
	// Guessed: the manifest could not be read whole, so that some of what was
	// removed may be back, and messages be delivered again.
	Guessed bool
	Lost    []Loss
}

// Loss is what one file could not give back.
type Loss struct {
	File   string
	Reason string
	// Ranges are where the lost keys lie, End included; none: anywhere.
	Ranges []Range
	// Keys is how many writes were lost, some of which may have been overtaken
	// or removals; 0: not known. Bytes is how much of a log.
	Keys  uint64
	Bytes int64
}

// String is a loss on one line; keys in hexadecimal.
func (l Loss) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", l.File, l.Reason)
	if l.Keys > 0 {
		fmt.Fprintf(&b, "; %d writes", l.Keys)
	}
	if l.Bytes > 0 {
		fmt.Fprintf(&b, "; %d bytes", l.Bytes)
	}
	for _, r := range l.Ranges {
		fmt.Fprintf(&b, "; from %x to %x", r.First, r.End)
	}
	return b.String()
}

// Repair saves into dst, which must not be there or be empty, what can be read
// of the data directory src, which is not changed. For each key the newest
// write that is left counts. Errors: ErrInUse, ErrFormat, those of the disk;
// damage is none but in the report.
func Repair(src, dst string, log *slog.Logger) (Report, error) {
	return repair(RealDisk(), src, RealDisk(), dst, log)
}

func repair(from *Disk, src string, to *Disk, dst string, log *slog.Logger) (rep Report, err error) {
	r := &repairer{fs: from.fs, dir: from.fs.PathJoin(src), log: log}
	if err := r.look(); err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	unlock, err := r.lock()
	if err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	defer unlock()
	if err := emptyDir(to.fs, dst); err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	s, err := Open(dst, Options{Log: log, Disk: to, ReserveBytes: -1, NoSync: true})
	if err != nil {
		return rep, fmt.Errorf("repair: %w", err)
	}
	// What is written is on the disk when Close ends.
	err = errors.Join(r.save(s), s.Close())
	if err != nil {
		return r.report, fmt.Errorf("repair: %s is not complete: %w", dst, err)
	}
	return r.report, nil
}

// emptyDir refuses a directory that has something in it.
func emptyDir(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err == nil && len(names) > 0 {
		return fmt.Errorf("%w: %s is not empty", ErrTarget, dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// repairer is one repair on its way.
type repairer struct {
	fs     vfs.FS
	dir    string
	log    *slog.Logger
	report Report

	names    []string
	manifest *manifest
	logged   []record // of the logs
	removals []removal
}

// look finds out what there is.
func (r *repairer) look() (err error) {
	if r.names, err = r.fs.List(r.dir); err != nil {
		return err
	}
	data := func(name string) bool {
		_, table := fileNumber(name, tableSuffix)
		_, log := fileNumber(name, logSuffix)
		return table || log || strings.HasPrefix(name, manifestPrefix)
	}
	if !slices.ContainsFunc(r.names, data) {
		return fmt.Errorf("%s is no data directory", r.dir)
	}
	slices.Sort(r.names)
	r.report.Guessed = true
	r.manifest, _ = readManifest(nil)
	current := currentManifest(r.names)
	if current == "" {
		return nil
	}
	b, err := readFile(r.fs, r.path(current))
	if err != nil {
		r.lost(Loss{File: current, Reason: plain(err)})
		return nil
	}
	m, whole := readManifest(b)
	r.manifest, r.report.Guessed = m, !whole
	if !whole {
		r.lost(Loss{File: current, Reason: "part of the manifest is damaged"})
	} else if (&logFile{b: b}).torn() || r.strange() {
		// A power cut does that, and loses nothing; others may have cut more.
		r.report.Guessed = true
		r.lost(Loss{File: current, Reason: "the manifest's end may be missing"})
	}
	return nil
}

// strange tells whether the log is missing that the manifest begins with: it is
// removed after a manifest that says so.
func (r *repairer) strange() bool {
	return !slices.ContainsFunc(r.names, func(name string) bool {
		n, ok := fileNumber(name, logSuffix)
		return ok && n == r.manifest.oldest
	})
}

// lock keeps a broker out of the directory, if it has a lock: nothing is made
// in it. None can run on a disk that is read only, as one that fails may have
// become.
func (r *repairer) lock() (unlock func(), err error) {
	if !slices.Contains(r.names, lockName) {
		return func() {}, nil
	}
	l, err := lockDir(r.fs, r.dir)
	if errors.Is(err, syscall.EROFS) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Close() }, nil // it was only held
}

func (r *repairer) path(name string) string { return r.fs.PathJoin(r.dir, name) }

func (r *repairer) lost(l Loss) {
	r.report.Lost = append(r.report.Lost, l)
	r.log.Warn("repair: lost", "what", l.String())
}

// save writes what is left into s.
func (r *repairer) save(s *Store) error {
	r.readLogs()
	runs := []iter.Seq[record]{slices.Values(r.logged)}
	for _, number := range r.tables() {
		name := fmt.Sprintf("%06d%s", number, tableSuffix)
		known := r.manifest.tables[number]
		t, err := openTable(r.fs, r.path(name))
		if err != nil {
			l := Loss{File: name, Reason: plain(err)}
			if known.first != nil {
				l.Ranges = []Range{{known.first, known.last}}
			}
			r.lost(l)
			continue
		}
		defer t.close()
		gone, err := t.removals()
		r.removals = append(r.removals, gone...)
		if err != nil {
			r.lost(Loss{File: name, Reason: "removals of whole ranges: " + plain(err)})
		}
		runs = append(runs, r.run(name, t, known))
	}
	w := &saver{s: s, report: &r.report}
	if err := merge(runs, r.removals, w.put); err != nil {
		return err
	}
	return w.pass()
}

// tables are the numbers of those that count: by the manifest, or where that
// is damaged all but those that it says are gone.
func (r *repairer) tables() []uint64 {
	numbers := map[uint64]bool{}
	for n := range r.manifest.tables {
		numbers[n] = true
	}
	for _, name := range r.names {
		n, ok := fileNumber(name, tableSuffix)
		if ok && r.report.Guessed && !r.manifest.gone[n] {
			numbers[n] = true
		}
	}
	var list []uint64
	for n := range numbers {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// run is what a table has, in order, around what is damaged.
func (r *repairer) run(name string, t *table, known tableInfo) iter.Seq[record] {
	return func(yield func(record) bool) {
		l := Loss{File: name}
		read, stopped := uint64(0), false
		last := known.first
		spans, err := t.spans()
		if err != nil {
			spans = append(spans, span{last: known.last, err: err})
		}
		for _, s := range spans {
			first := last
			err := t.each(s, func(rec record) bool {
				read++
				last = append(last[:0:0], rec.key...)
				stopped = !yield(rec)
				return !stopped
			})
			if stopped {
				return
			}
			if err != nil {
				l.Reason = plain(err)
				l.Ranges = append(l.Ranges, Range{first, s.last})
			}
			last = s.last
		}
		if l.Reason != "" {
			l.Keys = t.recorded - min(read, t.recorded)
			r.lost(l)
		}
	}
}

// readLogs takes in what the logs have that no table has, as a whole: it is
// not much.
func (r *repairer) readLogs() {
	for _, name := range r.names {
		number, ok := fileNumber(name, logSuffix)
		if !ok || number < r.manifest.oldest {
			continue
		}
		b, err := readFile(r.fs, r.path(name))
		if err != nil {
			r.lost(Loss{File: name, Reason: plain(err)})
			continue
		}
		f := &logFile{b, uint32(number)}
		gaps := int64(0)
		f.records(func(group []byte) {
			if err := r.group(group); err != nil {
				r.lost(Loss{File: name, Reason: plain(err), Bytes: int64(len(group))})
			}
		}, func(from, to int) { gaps += int64(to - from) })
		if gaps > 0 || f.damage() >= 0 {
			r.lost(Loss{File: name, Reason: "part of the log is damaged", Bytes: gaps})
		}
	}
	slices.SortFunc(r.logged, func(a, b record) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq))
	})
}

// group takes in one group of a log.
func (r *repairer) group(repr []byte) error {
	var b pebble.Batch
	if err := b.SetRepr(bytes.Clone(repr)); err != nil {
		return err
	}
	seq := uint64(b.SeqNum())
	for reader := b.Reader(); ; {
		kind, key, value, ok, err := reader.Next()
		switch {
		case err != nil:
			return err
		case !ok:
			return nil
		case kind == pebble.InternalKeyKindLogData:
			continue // a sync without a write
		case kind == pebble.InternalKeyKindRangeDelete:
			r.removals = append(r.removals, removal{key, value, seq})
		default:
			r.logged = append(r.logged, record{key, seq, kind, value})
		}
		seq++
	}
}

// saver writes what was saved, some of it at a time.
type saver struct {
	s      *Store
	report *Report
	b      Batch
}

func (w *saver) put(key, value []byte) error {
	if bytes.Equal(key, formatKey) {
		if err := formatError(value); err != nil {
			return err
		}
	} else {
		w.report.Keys++
		w.report.Bytes += uint64(len(key) + len(value))
	}
	if w.b.Set(key, value); len(w.b.data) < maxRound {
		return nil
	}
	return w.pass()
}

func (w *saver) pass() error {
	w.s.Commit(&w.b, false, nil)
	w.b = Batch{}
	return w.s.Sync()
}
