package core

import (
	"fmt"

	"entrepot/core/auth"
)

// Guarded tells whether clients have to prove who they are.
func (b *Broker) Guarded() bool { return b.Door() != nil }

// Allowed asks the policy about what somebody without a session does: the
// admin right, for who asks over HTTP. Errors: ErrNotAllowed.
func (b *Broker) Allowed(who auth.Principal, a auth.Action, o auth.Object) error {
	if err := b.policy.Check(who, a, o); err != nil {
		b.log.Debug("refused by policy", "user", who.User, "action", a.String(), "object", o.Name, "reason", err)
		return fmt.Errorf("%s %q: %w", a, o.Name, ErrNotAllowed)
	}
	return nil
}

// Stands tells whether what somebody without a session proved at log-in, over
// HTTP, still holds: not once the door was set anew and does not vouch for it.
func (b *Broker) Stands(who auth.Principal) bool {
	d := b.Door()
	return d == nil && who.User == "" || d != nil && d.Vouches("http", who)
}
