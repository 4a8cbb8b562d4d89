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

// Authenticate proves a client's name by its password and returns who it is,
// for Hello; without users that is an anonymous client, whatever it says. With
// users it takes tens of milliseconds, and longer when many log in at once:
// hold no lock, and let ctx end. Errors: ErrNotAllowed for an anonymous client,
// an unknown name, a wrong password, which the client is not to tell apart;
// ErrTimeout when ctx ended first.
func (b *Broker) Authenticate(ctx context.Context, name, password string) (auth.Principal, error) {
	users := b.users.Load()
	if users == nil {
		return auth.Principal{}, nil
	}
	switch err := users.Check(ctx, name, password); {
	case err == nil:
		return auth.Principal{User: name}, nil
	case errors.Is(err, auth.ErrBusy):
		return auth.Principal{}, fmt.Errorf("log-in: %w", ErrTimeout)
	default:
		b.log.Debug("log-in refused", "reason", err)
		return auth.Principal{}, fmt.Errorf("log-in: %w", ErrNotAllowed)
	}
}
