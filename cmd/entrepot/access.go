package main

import (
	"log/slog"

	"entrepot/core/auth"
)

// access reads who may log in, nil for everybody, and what nobody may do.
func access(c auth.Config, log *slog.Logger) (*auth.Users, auth.Policy, error) {
	policy, err := c.Policy()
	if err != nil || c.Users == "" {
		return nil, policy, err
	}
	users, err := auth.ReadUsers(c.Users)
	if err != nil {
		return nil, nil, err
	}
	log.Info("users", "file", c.Users, "number", users.Len())
	return users, policy, nil
}
