package core

import (
	"fmt"

	"entrepot/core/auth"
)

// Guarded tells whether clients have to prove who they are.
func (b *Broker) Guarded() bool { return b.users.Load() != nil }

// Allowed asks the policy about what somebody without a session does: the
// admin right, for who asks over HTTP. Errors: ErrNotAllowed.
func (b *Broker) Allowed(who auth.Principal, a auth.Action, o auth.Object) error {
	if err := b.policy.Check(who, a, o); err != nil {
		b.log.Debug("refused by policy", "user", who.User, "action", a.String(), "object", o.Name, "reason", err)
		return fmt.Errorf("%s %q: %w", a, o.Name, ErrNotAllowed)
	}
	return nil
}

// Stands tells whether what somebody proved at log-in still holds: false once
// the users were set anew without this one.
func (b *Broker) Stands(who auth.Principal) bool {
	u := b.users.Load()
	return u == nil && who.User == "" || u.Has(who.User)
}
