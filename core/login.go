package core

import (
	"context"
	"errors"
	"fmt"

	"entrepot/core/auth"
)

// SetUsers says who may log in from now on; nil, as before the first call,
// welcomes everybody. Who is in stays.
func (b *Broker) SetUsers(u *auth.Users) { b.users.Store(u) }

// Authenticate proves who a client is by what it brings and returns that, for
// Hello; without users that is an anonymous client, whatever it says. With
// users it takes tens of milliseconds, and longer when many log in at once:
// hold no lock, and let ctx end. Errors: ErrNotAllowed for an anonymous client,
// an unknown name, a wrong password, which the client is not to tell apart;
// ErrTimeout when ctx ended first.
func (b *Broker) Authenticate(ctx context.Context, c auth.Credentials) (auth.Principal, error) {
	users := b.users.Load()
	if users == nil {
		return auth.Principal{ClientID: c.ClientID}, nil
	}
	switch err := users.Check(ctx, c.User, c.Password); {
	case err == nil:
		return auth.Principal{User: c.User, ClientID: c.ClientID}, nil
	case errors.Is(err, auth.ErrBusy):
		return auth.Principal{}, fmt.Errorf("log-in: %w", ErrTimeout)
	default:
		b.log.Debug("log-in refused", "reason", err)
		return auth.Principal{}, fmt.Errorf("log-in: %w", ErrNotAllowed)
	}
}
