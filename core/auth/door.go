package auth

import (
	"context"
	"fmt"
	"slices"
)

// Door says who may come in. It does not change: new settings make a new one,
// and its Vouches tells who of those that are in may stay. Methods may be called
// from any goroutine.
type Door struct {
	users       *Users
	tokens      *tokens // nil: none are taken
	certificate CertificateConfig
	anonymous   []string // protocols
	backoff     BackoffConfig
}

// NewDoor lets in the users of a file alone.
func NewDoor(u *Users) *Door { return &Door{users: u, backoff: DefaultBackoffConfig()} }

// Backoff is how those who fail are slowed down; the nil Door has the defaults.
func (d *Door) Backoff() BackoffConfig {
	if d == nil {
		return DefaultBackoffConfig()
	}
	return d.backoff
}

// Users is how many the users file has.
func (d *Door) Users() int { return d.users.Len() }

// method is what a client proved itself by.
type method uint8

const (
	byNothing method = iota
	byPassword
	byCRA
	byToken
	byCertificate
	byPSK
)

// Lists tells whether the file of users has a name.
func (d *Door) Lists(name string) bool {
	if d == nil {
		return false
	}
	_, listed := d.users.find(name)
	return listed
}

// Admit decides who a client is and whether it may come in. Errors wrap
// ErrRefused (a *Refusal) or ErrBusy. See Users.Check for its costs.
//
// What counts is, in this order: a certificate where the settings say always, a
// signed challenge, a token in place of a password, a password, a certificate, a
// key of DTLS, and last nothing at all.
func (d *Door) Admit(ctx context.Context, c Credentials) (Principal, error) {
	p, err := d.prove(ctx, &c)
	if err != nil {
		return Principal{}, err
	}
	p.ClientID = c.ClientID
	if p.by == byNothing {
		return p, nil
	}
	a, listed := d.users.find(p.User)
	if p.by == byCertificate && d.certificate.Listed && !listed {
		return Principal{}, refuse(BadCertificate, p.User, "the user of the certificate is not in the users file")
	}
	if why := a.admits(&c); why != "" {
		return Principal{}, refuse(why, p.User, "the user may not come in by %s, %s, from %s", c.Protocol, c.Listener, c.Remote)
	}
	p.Groups = together(a.groups, p.Groups)
	p.Limits, p.account = a.limits, a.mark
	return p, nil
}

// together is both lists, each member once.
func together(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// prove says who a client is by the one thing that counts.
func (d *Door) prove(ctx context.Context, c *Credentials) (Principal, error) {
	certified := d.certificate.User != "" && c.Certificate != nil
	switch {
	case certified && d.certificate.Always:
		return d.byCertificate(c)
	case c.CRA != nil:
		return d.byCRA(c)
	case d.tokens != nil && looksLikeToken(c.Password):
		return d.byToken(c)
	case c.Password != "":
		err := d.users.Check(ctx, c.User, c.Password)
		return Principal{User: c.User, by: byPassword}, err
	case certified:
		return d.byCertificate(c)
	case c.PSK != "":
		return d.byPSK(c)
	case c.User == "" && slices.Contains(d.anonymous, c.Protocol):
		return Principal{}, nil
	case c.User == "":
		return Principal{}, refuse(BadAnonymous, "", "the client says nothing of who it is")
	}
	return Principal{}, refuse(BadPassword, c.User, "no password")
}

func (d *Door) byCRA(c *Credentials) (Principal, error) {
	k, known := d.users.craOf(c.User)
	if fits := k.signed(c.CRA.Challenge, c.CRA.Signature); !fits || !known {
		return Principal{}, refuse(BadPassword, c.User, "no such user, or not the signature")
	}
	return Principal{User: c.User, by: byCRA}, nil
}

func (d *Door) byToken(c *Credentials) (Principal, error) {
	t, err := d.tokens.check(c.Password)
	if err != nil {
		return Principal{}, err
	}
	if c.User != "" && c.User != t.user {
		return Principal{}, refuse(BadToken, c.User, "the token is another user's: %q", t.user)
	}
	return Principal{User: t.user, Groups: t.groups, Until: t.until, by: byToken, key: t.key}, nil
}

// byCertificate: front-ends bring only what was verified up to an authority of
// the settings, so the name is all that there is to decide.
func (d *Door) byCertificate(c *Credentials) (Principal, error) {
	name, err := d.certificate.name(c.Certificate)
	switch {
	case err != nil:
		return Principal{}, refuse(BadCertificate, name, "%v", err)
	case c.User != "" && c.User != name:
		return Principal{}, refuse(BadCertificate, c.User, "the certificate is another user's: %q", name)
	}
	return Principal{User: name, Until: c.Certificate.NotAfter, by: byCertificate, key: d.certificate.mark()}, nil
}

func (d *Door) byPSK(c *Credentials) (Principal, error) {
	if err := CheckName(c.PSK); err != nil {
		return Principal{}, refuse(BadKey, c.PSK, "%v", err)
	}
	if c.User != "" && c.User != c.PSK {
		return Principal{}, refuse(BadKey, c.User, "the key is another user's: %q", c.PSK)
	}
	return Principal{User: c.PSK, by: byPSK}, nil
}

// Regroup is a client that came in earlier, with the groups that the users file
// has for it now in place of those that it had by the door before. After a start
// that one is nil: then all its other groups go, unless there are tokens, which
// may have brought them. The nil Door changes nobody.
func (d *Door) Regroup(p Principal, before *Door) Principal {
	if d == nil {
		return p
	}
	now, _ := d.users.find(p.User)
	var was account
	switch {
	case before != nil:
		was, _ = before.users.find(p.User)
	case d.tokens == nil:
		was.groups = p.Groups
	}
	if slices.Equal(was.groups, now.groups) {
		return p
	}
	left := slices.DeleteFunc(slices.Clone(p.Groups), func(g string) bool { return slices.Contains(was.groups, g) })
	p.Groups = together(left, now.groups)
	return p
}

// Vouches tells whether a client that came in by a protocol would still be the
// same by this door: its line in the users file has not changed in any way, the
// key of its token is still there, certificates still name users as they did.
// The nil Door, which welcomes everybody, vouches for all.
func (d *Door) Vouches(protocol string, p Principal) bool {
	if d == nil {
		return true
	}
	if p.by == byNothing {
		return slices.Contains(d.anonymous, protocol)
	}
	a, listed := d.users.find(p.User)
	if a.mark != p.account {
		return false
	}
	switch p.by {
	case byToken:
		return d.tokens.has(p.key)
	case byCertificate:
		return d.certificate.mark() == p.key && (listed || !d.certificate.Listed)
	case byPassword, byCRA:
		return listed
	}
	return true
}

func (c CertificateConfig) mark() mark { return markOf("certificate", c.User, fmt.Sprint(c.Always)) }

// PSK is the key of a user for DTLS; false when there is none. It must not be
// logged.
func (d *Door) PSK(identity string) (key []byte, ok bool) {
	if d == nil {
		return nil, false
	}
	a, _ := d.users.find(identity)
	return a.psk, len(a.psk) > 0
}

// Salt is what a client needs to derive its key for WAMP-CRA. Every name has
// one: it does not tell whether there is such a user.
func (d *Door) Salt(user string) Salt {
	if d == nil {
		return Salt{Salt: "none", Passes: 1, Length: 32}
	}
	k, _ := d.users.craOf(user)
	return Salt{Salt: k.salt, Passes: k.passes, Length: 32}
}

// TakesTokens tells whether clients may come in by tokens, TakesCRA and
// TakesCertificates by those: for front-ends that say what they offer.
func (d *Door) TakesTokens() bool { return d != nil && d.tokens != nil }

// TakesCRA is explained at TakesTokens.
func (d *Door) TakesCRA() bool { return d != nil && len(d.users.salted) > 0 }

// TakesCertificates is explained at TakesTokens.
func (d *Door) TakesCertificates() bool { return d != nil && d.certificate.User != "" }
