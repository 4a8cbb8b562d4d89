package auth

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
)

// Errors that Check returns, wrapped.
var (
	// ErrRefused is an anonymous log-in, an unknown name, a wrong or empty
	// password; clients are not told which.
	ErrRefused = errors.New("log-in refused")
	// ErrBusy is a log-in that was not looked at in time.
	ErrBusy = errors.New("too many log-ins at once")
)

// Users are those who may log in, with the hashes of their passwords. They do
// not change. The nil *Users welcomes everybody, whatever name they give.
type Users struct {
	hashes map[string]hash
	decoys []hash // never empty
	seed   maphash.Seed
	slots  chan struct{} // one for each comparison that may run
}

func newUsers(hashes map[string]hash) *Users {
	u := &Users{hashes: hashes, seed: maphash.MakeSeed(), slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	for _, h := range hashes {
		u.decoys = append(u.decoys, h)
	}
	if len(u.decoys) == 0 {
		u.decoys = []hash{fresh()}
	}
	return u
}

// Len is their number.
func (u *Users) Len() int {
	if u == nil {
		return 0
	}
	return len(u.hashes)
}

// Check returns nil when the password is the user's, else an error that wraps
// ErrRefused, or ErrBusy when ctx ended first. It may be called from any
// goroutine and takes tens of milliseconds: hold no lock. However many call at
// once, comparisons take half of the processors at most (but one at least);
// the rest of the callers wait.
//
// A name that is not there costs as much as one that is: its password is
// compared with another user's hash, each time the same one's, so that the time
// tells no more of names than the answer does.
func (u *Users) Check(ctx context.Context, name, password string) error {
	if u == nil {
		return nil
	}
	if name == "" || password == "" { // whatever the file says of it
		return fmt.Errorf("no name or no password: %w", ErrRefused)
	}
	h, known := u.hashes[name]
	if !known {
		h = u.decoys[maphash.String(u.seed, name)%uint64(len(u.decoys))]
	}
	select {
	case u.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	defer func() { <-u.slots }()
	if ctx.Err() != nil { // both came at once
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	if fits := h.fits(password); !fits || !known {
		return fmt.Errorf("user %q: %w", name, ErrRefused)
	}
	return nil
}

// Has tells whether there is a user of that name.
func (u *Users) Has(name string) bool {
	if u == nil {
		return false
	}
	_, ok := u.hashes[name]
	return ok
}
