package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors, wrapped with more words.
var (
	// ErrFailed: the disk did not take a write; it may recover.
	ErrFailed = errors.New("store failed")
	// ErrCorrupt: a checksum does not fit; the key range is damaged.
	ErrCorrupt = errors.New("data damaged")
	// ErrInUse: another process has the data directory.
	ErrInUse = errors.New("data directory in use")
	// ErrFormat: the data directory is of a newer version.
	ErrFormat = errors.New("data directory of a newer version")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store closed")
)

// Format is the version of the keys and values under this store; a store of
// a newer one is refused.
const Format = 1

var formatKey = []byte("\x00format")

// Options of a store.
type Options struct {
	Log *slog.Logger
	// Disk is where the files are; nil is the operating system's.
	Disk *Disk
	// CacheBytes is for blocks read from disk; default 32 MiB.
	CacheBytes int64
	// ReserveBytes is a file kept to be freed when the disk is full, so that
	// what frees space (settling) can be written; default 64 MiB, negative none.
	ReserveBytes int64
	// RetryEvery is how often a failed disk is tried; default 1 s.
	RetryEvery time.Duration
	// OnState is called, from a goroutine of the store, when it failed (with
	// the reason) and when it works again (nil). It must not block.
	OnState func(error)
	// NoSync leaves out every sync: for tests that show what syncs are for.
	NoSync bool
}

// Store is a data directory. All methods may be called from any goroutine.
type Store struct {
	opts Options
	dir  string
	fs   vfs.FS
	lock interface{ Close() error }

	db     atomic.Pointer[handle] // nil while failed
	damage damage
	reads  sync.RWMutex // held shared while the handle is read, alone by Close
	shut   bool         // under reads

	mu       sync.Mutex
	wake     *sync.Cond
	waiting  []*group // not yet taken by the committer
	inFlight []*group
	free     []*group
	unsynced bool // something was committed without a sync after it
	failed   error
	closed   bool
	running  bool // the committer; a failure may leave it behind
}

// handle is one opening of the database; after a failure its file system is
// fenced, so that its goroutines can write nothing more, and a new one opened.
type handle struct {
	db    *pebble.DB
	fence *gate
}

// Open opens or makes the data directory. Errors: ErrInUse, ErrFormat,
// ErrCorrupt (the log or the manifest is damaged: entrepot repair).
func Open(dir string, o Options) (*Store, error) {
	o.defaults()
	s := &Store{opts: o, dir: dir, fs: o.Disk.fs}
	s.wake = sync.NewCond(&s.mu)
	if err := s.fs.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := s.fs.Lock(s.fs.PathJoin(dir, "entrepot.lock"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: is another entrepot running on it? (%v)", dir, ErrInUse, err)
	}
	s.lock = lock
	if err := s.openFirst(); err != nil {
		// The first error is the one to tell.
		_ = lock.Close()
		return nil, err
	}
	s.running = true
	go s.commitLoop()
	return s, nil
}

func (o *Options) defaults() {
	if o.Disk == nil {
		o.Disk = RealDisk()
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = 64 << 20
	}
	if o.RetryEvery == 0 {
		o.RetryEvery = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func (s *Store) openFirst() error {
	h, err := s.openHandle()
	if err != nil {
		return err
	}
	if err := s.checkFormat(h.db); err != nil {
		// The format is what is wrong.
		_ = h.db.Close()
		return err
	}
	s.db.Store(h)
	s.makeReserve()
	return nil
}

// openHandle opens the database behind a fence of its own.
func (s *Store) openHandle() (*handle, error) {
	h := &handle{fence: &gate{}}
	cache := pebble.NewCache(s.opts.CacheBytes)
	defer cache.Unref()
	db, err := pebble.Open(s.dir, &pebble.Options{
		FS:                          h.fence.wrap(s.fs),
		Cache:                       cache,
		MemTableSize:                32 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       64,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      &logger{store: s, fence: h.fence},
		EventListener:               &pebble.EventListener{DataCorruption: s.corrupted},
	})
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", s.dir, openError(err))
	}
	h.db = db
	return h, nil
}

func openError(err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %v; \"entrepot repair\" saves what can be saved into a new directory", ErrCorrupt, err)
	}
	return err
}

// checkFormat writes the version into a new store and compares it in an old one.
func (s *Store) checkFormat(db *pebble.DB) error {
	v, closer, err := db.Get(formatKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return db.Set(formatKey, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("format of %s: %w", s.dir, openError(err))
	}
	defer closer.Close()
	if len(v) != 4 || binary.BigEndian.Uint32(v) > Format {
		return fmt.Errorf("%s: %w: it has format %x, this program knows up to %d", s.dir, ErrFormat, v, Format)
	}
	return nil
}

// Err tells why the store does not take writes; nil when it does.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

func (s *Store) state() error {
	if s.closed {
		return ErrClosed
	}
	return s.failed
}

// Close commits what waits and closes the directory.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.wake.Broadcast()
	for s.running {
		s.wake.Wait()
	}
	failed := s.failed != nil
	s.mu.Unlock()
	s.reads.Lock()
	s.shut = true
	s.reads.Unlock()
	var err error
	if !failed {
		err = s.db.Load().db.Close()
	}
	return errors.Join(err, s.lock.Close())
}
