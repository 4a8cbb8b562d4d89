package core

import "entrepot/core/auth"

// Guarded tells whether clients have to prove who they are.
func (b *Broker) Guarded() bool { return b.Door() != nil }

// Allowed asks the policy about what somebody without a session does: the
// admin right, for who asks over HTTP. Errors: ErrNotAllowed.
func (b *Broker) Allowed(who auth.Principal, a auth.Action, o auth.Object) error {
	return b.ask(&who, asked{a, o})
}

// Stands tells whether what somebody without a session proved at log-in, over
// HTTP, still holds: not once the door was set anew and does not vouch for it.
func (b *Broker) Stands(who auth.Principal) bool {
	d := b.Door()
	return d == nil && who.User == "" || d != nil && d.Vouches("http", who)
}
