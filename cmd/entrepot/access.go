package main

import (
	"log/slog"

	"entrepot/core"
	"entrepot/core/auth"
)

// access reads who may log in, nil for everybody, and what nobody may do.
func access(c auth.Config, log *slog.Logger) (*auth.Door, auth.Policy, error) {
	policy, err := c.Policy()
	if err != nil {
		return nil, nil, err
	}
	door, err := c.Door()
	if err != nil {
		return nil, nil, err
	}
	if door != nil {
		log.Info("users", "file", c.Users, "number", door.Users(), "token_keys", len(c.Token.Keys), "certificates", c.Certificate.User)
	}
	return door, policy, nil
}

// rereadUsers lets clients in by the users and keys as they are now, whenever files
// are read again: who would not come in any more as the same is out then. Where
// everybody is welcome it stays so.
func rereadUsers(d *auth.Door, c auth.Config, b *core.Broker, again *reloads) {
	if d == nil {
		return
	}
	again.add("users", func() (apply func(), err error) {
		d, err := c.Door()
		return func() { b.SetDoor(d) }, err
	})
}

// rereadRules has a broker decide by the file of rules as it is now.
func rereadRules(c auth.Config, b *core.Broker) func() (func(), error) {
	return func() (func(), error) {
		policy, err := c.Policy()
		if err != nil {
			return nil, err
		}
		return func() { b.SetPolicy(policy) }, nil
	}
}
