package auth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"
)

const password = "correct horse"

// userFile writes a users file.
func userFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bcrypted(t *testing.T, version, password string) string {
	t.Helper()
	b, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return "$" + version + strings.TrimPrefix(string(b), "$2a")
}

func mustHash(t *testing.T, password string) string {
	t.Helper()
	text, err := Hash(password)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 72)
	u, err := ReadUsers(userFile(t, "ann:"+mustHash(t, password)+"\n"+
		"b@example.com:"+bcrypted(t, "2a", password)+"\n"+
		"Jörg Ü:"+bcrypted(t, "2b", password)+"\n"+
		"dora:"+bcrypted(t, "2y", password)+"\n"+
		"long:"+bcrypted(t, "2b", long)+"\n"+
		"blank:"+bcrypted(t, "2b", "")+"\n"+
		"cheap:$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$XEHIvTBlGB2MxYFUQvwy7JpF4iaj17AMfKuljYyPtlw"))
	if err != nil {
		t.Fatal(err)
	}
	if u.Len() != 7 {
		t.Errorf("%d users", u.Len())
	}
	for _, c := range []struct {
		name, password string
		want           error
	}{
		{"ann", password, nil},
		{"b@example.com", password, nil},
		{"Jörg Ü", password, nil},
		{"dora", password, nil},
		{"long", long, nil},
		{"long", long + "y", ErrRefused}, // bcrypt alone would take it
		{"blank", "", ErrRefused},
		{"cheap", password, ErrRefused},
		{"ann", "correct horse ", ErrRefused},
		{"ann", "", ErrRefused},
		{"dora", "Correct horse", ErrRefused},
		{"Ann", password, ErrRefused},
		{"nobody", password, ErrRefused},
		{"", password, ErrRefused},
		{"", "", ErrRefused},
		{"ann\x00", password, ErrRefused},
		{"ann:", password, ErrRefused},
	} {
		if err := u.Check(t.Context(), c.name, c.password); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%q %q: %v, want %v", c.name, c.password, err, c.want)
		} else if err != nil && c.password != "" && strings.Contains(err.Error(), c.password) {
			t.Errorf("the password is in %q", err)
		}
	}
}

func TestNilUsersAreNobody(t *testing.T) {
	var u *Users
	if err := u.Check(t.Context(), "ann", "x"); !errors.Is(err, ErrRefused) || u.Len() != 0 {
		t.Error(err, u.Len())
	}
}

// A file of no users is not the same as none.
func TestNobodyMayLogIn(t *testing.T) {
	u, err := ReadUsers(userFile(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Check(t.Context(), "ann", password); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

// hashed are users of whom only the hashes are known.
func hashed(hashes map[string]hash) *Users {
	var names []string
	var accounts []account
	for name, h := range hashes {
		names, accounts = append(names, name), append(accounts, account{hash: h})
	}
	return newUsers(names, accounts)
}

// counted is a hash that counts comparisons.
type counted struct {
	right string
	n     *atomic.Int64
}

func (c counted) fits(password string) bool {
	c.n.Add(1)
	return password == c.right
}

// [fault 60] an unknown name costs one comparison, as a known one does, with
// the hash of a user: always the same one's, and never of success.
func TestUnknownNameCostsAsMuch(t *testing.T) {
	var ann, bob atomic.Int64
	u := hashed(map[string]hash{"ann": counted{"a", &ann}, "bob": counted{"b", &bob}})
	used := map[string]bool{}
	for _, name := range strings.Fields("ann bob c d e f g h i j k l m n o p q r s t u v w x y z") {
		var which string
		for range 3 {
			for _, password := range []string{"wrong", "a", "b"} {
				a, b := ann.Load(), bob.Load()
				err := u.Check(t.Context(), name, password)
				if right := name == "ann" && password == "a" || name == "bob" && password == "b"; right != (err == nil) {
					t.Fatalf("%s %s: %v", name, password, err)
				}
				now := map[bool]string{true: "ann's", false: "bob's"}[ann.Load() == a+1]
				if ann.Load()-a+bob.Load()-b != 1 {
					t.Fatalf("%s: %d comparisons", name, ann.Load()-a+bob.Load()-b)
				}
				if which != "" && which != now {
					t.Errorf("%s: once %s, once %s", name, which, now)
				}
				which = now
			}
		}
		used[which] = true
	}
	if len(used) != 2 {
		t.Errorf("decoys are %v only", used)
	}
}

// slow is a hash whose comparison takes a second.
type slow struct{ running, most *atomic.Int64 }

func (s slow) fits(string) bool {
	n := s.running.Add(1)
	defer s.running.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	time.Sleep(time.Second)
	return true
}

// A flood of log-ins takes half of the processors at most; who waits too long
// is told so.
// It shows fault 60.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, busy, in atomic.Int64
		u := hashed(map[string]hash{"ann": slow{&running, &most}})
		slots := max(1, runtime.GOMAXPROCS(0)/2)
		for range 10 * slots {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				switch err := u.Check(ctx, "ann", "x"); {
				case err == nil:
					in.Add(1)
				case errors.Is(err, ErrBusy) && errors.Is(err, context.DeadlineExceeded):
					busy.Add(1)
				default:
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if int(most.Load()) != slots || int(in.Load()) != 4*slots || int(busy.Load()) != 6*slots {
			t.Errorf("%d at once, %d in, %d busy; %d slots", most.Load(), in.Load(), busy.Load(), slots)
		}
	})
}

// [faults C 60] among hashes of different kinds an unknown name costs what one
// of the users costs: no name has a time of its own.
func TestDecoysOfMixedKinds(t *testing.T) {
	u, err := ReadUsers(userFile(t, "ann:"+mosquitto6+"\nbob:"+bcrypted(t, "2b", password)+"\ncleo:* groups=a\ndora:"+mosquitto7+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i := range 300 {
		name := strings.Repeat("x", i+1)
		h := u.decoys[u.pick(name, len(u.decoys))]
		kinds[fmt.Sprintf("%T", h)]++
	}
	if len(u.decoys) != 3 || kinds["auth.sha"] < 100 || kinds["auth.blowfish"] < 50 {
		t.Errorf("%d decoys, %v", len(u.decoys), kinds)
	}
}
