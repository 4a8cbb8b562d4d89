package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
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
	// what frees space (settling) can be written; default 64 MiB, none on a
	// MemoryDisk, negative none.
	ReserveBytes int64
	// RetryEvery is how long after a failure the disk is first tried; default
	// 1 s. The pause grows while it fails again.
	RetryEvery time.Duration
	// NoSync leaves out every sync: for tests that show what syncs are for.
	NoSync bool

	memTable uint64 // what is sorted in memory before it becomes a file
}

// Store is a data directory. All methods may be called from any goroutine.
type Store struct {
	opts  Options
	dir   string
	fs    vfs.FS
	lock  io.Closer
	cache *pebble.Cache

	db      atomic.Pointer[handle] // the one in use; a failed one until there is another
	damage  damage
	works   atomic.Bool
	refusal atomic.Pointer[error] // see Refuse
	backlog atomic.Int64
	reads   sync.RWMutex // held shared while the handle is read, alone by Close
	shut    bool         // under reads

	backing sync.Mutex    // one Backup at a time
	backups int           // under backing
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when no callback follows
	others  sync.WaitGroup

	mu       sync.Mutex
	wake     sync.Cond // for the committer, and for Close
	waiting  []*round  // not yet taken by the committer
	inFlight *round
	spare    *round
	unsynced bool  // something was committed without a sync after it
	failed   error // nil: it works
	closed   bool
	running  bool // the committer; a failure leaves it behind
	watchers []func(error)
	restates []func(*Fresh) error

	eased    sync.Cond // for Ease
	told     sync.Cond // for tellLoop
	verdicts []verdict
	silent   bool // no verdicts follow

	// Used by one recovery after the other.
	worksSince time.Time
	lastPause  time.Duration
}

// Open opens or makes the data directory. Errors: ErrInUse, ErrFormat,
// ErrCorrupt (what names the files, or the log, is damaged: entrepot repair).
func Open(dir string, o Options) (*Store, error) {
	o.defaults()
	if dir == "" {
		return nil, errors.New("data directory: no name")
	}
	s := &Store{opts: o, dir: o.Disk.fs.PathJoin(dir), fs: o.Disk.fs,
		closing: make(chan struct{}), ended: make(chan struct{})}
	s.wake.L, s.told.L, s.eased.L = &s.mu, &s.mu, &s.mu
	if err := s.fs.MkdirAll(s.dir, 0o750); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := lockDir(s.fs, s.dir)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	s.cache = pebble.NewCache(o.CacheBytes)
	if err := s.openFirst(); err != nil {
		s.cache.Unref()
		// The first error is the one to tell.
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

const lockName = "entrepot.lock"

// lockDir keeps other processes out of a data directory.
func lockDir(fs vfs.FS, dir string) (io.Closer, error) {
	lock, err := fs.Lock(fs.PathJoin(dir, lockName))
	if errors.As(err, new(*os.PathError)) {
		// The file could not be opened: nobody tells who has it.
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: is another entrepot running on it? (%v)", dir, ErrInUse, err)
	}
	return lock, nil
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
		if o.Disk.mem != nil {
			o.ReserveBytes = -1
		}
	}
	if o.memTable == 0 {
		o.memTable = 16 << 20
	}
	if o.RetryEvery == 0 {
		o.RetryEvery = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

func (s *Store) openFirst() error {
	if err := inspect(s.fs, s.dir); err != nil {
		return err
	}
	if err := s.dropCheckpoints(); err != nil {
		return fmt.Errorf("remains of a backup: %w", err)
	}
	h, err := s.openHandle()
	if err != nil && full(err) {
		s.freeReserve()
		s.sweep()
		h, err = s.openHandle()
	}
	if err != nil {
		return err
	}
	s.db.Store(h)
	s.running = true
	s.works.Store(true)
	go s.commitLoop(h)
	go s.tellLoop()
	s.others.Go(s.keepReserve)
	return nil
}

// checkFormat writes the version into a new store and compares it in an old one.
func (s *Store) checkFormat(db *pebble.DB) error {
	v, closer, err := db.Get(formatKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return db.Set(formatKey, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync)
	}
	if pebble.IsCorruptionError(err) {
		// It is told, and no reason to serve nothing.
		return nil
	}
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	defer closer.Close()
	return formatError(v)
}

// formatError refuses a newer version.
func formatError(v []byte) error {
	if len(v) != 4 || binary.BigEndian.Uint32(v) > Format {
		return fmt.Errorf("%w: it has format %x, this program knows up to %d", ErrFormat, v, Format)
	}
	return nil
}

// Err tells why the store does not take writes; nil when it does.
func (s *Store) Err() error {
	if s.works.Load() {
		return nil
	}
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

// Close commits what waits, calls the last callbacks and closes the directory.
// Not to be called from a callback.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.ended
		return nil
	}
	s.closed = true
	s.works.Store(false)
	close(s.closing)
	s.wake.Broadcast()
	for s.running {
		s.wake.Wait()
	}
	failed := s.failed != nil
	s.silent = true
	s.told.Signal()
	s.mu.Unlock()
	<-s.ended
	s.others.Wait()
	s.reads.Lock()
	s.shut = true
	s.reads.Unlock()
	var err error
	if h := s.db.Load(); !failed {
		err = h.call(func() error { return errors.Join(h.db.Flush(), h.db.Close()) })
	}
	s.cache.Unref()
	return errors.Join(err, s.lock.Close())
}
