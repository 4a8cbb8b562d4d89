package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"entrepot/core/auth"
)

// aclCommand is `entrepot acl`.
func aclCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "acl",
		Short: "Say who may do what, by settings and a file of rules",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(aclCheckCommand(), aclExplainCommand())
	return c
}

func aclCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read a file of rules and say what is wrong with it",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := auth.ReadRules(args[0])
			if err != nil {
				return settings(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: ok, %d rules\n", args[0], r.Len())
			return err
		},
	}
}
