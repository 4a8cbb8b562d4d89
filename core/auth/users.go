package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// Users are those who may log in, as a file says. They do not change. The nil
// *Users are nobody.
type Users struct {
	accounts map[string]account
	decoys   []hash        // never empty
	salted   []*craKey     // those that there are
	secret   []byte        // what is made up for unknown names comes from it
	slots    chan struct{} // one for each comparison that may run
}

// newUsers expects the users in the file's order.
func newUsers(names []string, accounts []account) *Users {
	u := &Users{accounts: make(map[string]account, len(names)), slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	for i, name := range names {
		u.accounts[name] = accounts[i]
	}
	for _, name := range slices.Sorted(maps.Keys(u.accounts)) {
		a := u.accounts[name]
		if a.hash != nil {
			u.decoys = append(u.decoys, a.hash)
		}
		if a.cra != nil {
			u.salted = append(u.salted, a.cra)
		}
	}
	if len(u.decoys) == 0 {
		u.decoys = []hash{fresh()}
	}
	seed := [16]byte{}
	if len(accounts) > 0 {
		seed = accounts[0].mark
	}
	sum := sha256.Sum256(append([]byte("decoys "), seed[:]...))
	u.secret = sum[:]
	return u
}

// Len is their number.
func (u *Users) Len() int {
	if u == nil {
		return 0
	}
	return len(u.accounts)
}

// Check returns nil when the password is the user's, else an error that wraps
// ErrRefused, or ErrBusy when ctx ended first. It may be called from any
// goroutine and takes tens of milliseconds: hold no lock. However many call at
// once, comparisons take half of the processors at most (but one at least);
// the rest of the callers wait.
//
// A name that is not there, or has no password, costs as much as one that has:
// its password is compared with another user's hash, each time the same one's,
// so that the time tells no more of names than the answer does. That holds in a
// file of different kinds of hashes too: from outside, the name might be one
// with a hash of any of them.
func (u *Users) Check(ctx context.Context, name, password string) error {
	if name == "" || password == "" || u == nil { // whatever the file says of it
		return refuse(BadPassword, name, "no name or no password")
	}
	h := u.accounts[name].hash
	known := h != nil
	if !known {
		h = u.decoys[u.pick(name, len(u.decoys))]
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
		return refuse(BadPassword, name, "no such user, or not the password")
	}
	return nil
}

// Groups are those that the file says of a user; listed is false for one that it
// does not have.
func (u *Users) Groups(name string) (groups []string, listed bool) {
	a, listed := u.find(name)
	return slices.Clone(a.groups), listed
}

// made is what the secret makes of a name.
func (u *Users) made(what, name string) []byte {
	h := hmac.New(sha256.New, u.secret)
	h.Write([]byte(what + "\x00" + name))
	return h.Sum(nil)
}

// pick is a number below n, the same each time for a name.
func (u *Users) pick(name string, n int) int {
	return int(binary.BigEndian.Uint64(u.made("pick", name)) % uint64(n))
}

// decoyText looks like rand.Text.
func (u *Users) decoyText(what, name string) string {
	return base32.StdEncoding.EncodeToString(u.made(what, name))
}

// find is what the file says of a user; nothing of one that it does not have.
func (u *Users) find(name string) (a account, listed bool) {
	if u == nil {
		return a, false
	}
	a, listed = u.accounts[name]
	return a, listed
}
