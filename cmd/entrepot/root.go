package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/cmd/entrepot/bench"
	"entrepot/conf"
)

// newRoot returns the tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "entrepot",
		Short: "A message broker on which MQTT, AMQP, STOMP and WAMP clients meet",
		Long: `Entrepot is a message broker on which MQTT, AMQP 0-9-1, STOMP and WAMP clients
meet: they share one space of topics and one set of queues.

  entrepot serve                                                 run the broker
  entrepot sub 'mqtt://127.0.0.1:1883/plant/#'                   see what comes
  entrepot pub stomp://127.0.0.1:61613/topic/plant.7.temp 21.5   send something

Exit codes: 0 done, 1 failed on the way, 2 a command line or settings that make
no sense.`,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,

		SuggestionsMinimumDistance: 2,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(serveCommand(), publishCommand(), subscribeCommand(), checkCommand(),
		configCommand(), passwdCommand(), aclCommand(), certsCommand(), tokenCommand(), reloadCommand(), backupCommand(), restoreCommand(), repairCommand(), queueCommand(), delayedCommand(), bench.Command(), versionCommand())
	blameArguments(root)
	return root
}

// noCommand is the root's check: what stands there is no command.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("no command %q; is %s meant?", args[0], strings.Join(near, " or "))
	}
	return fmt.Errorf("no command %q", args[0])
}

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Read a settings file and say what is wrong with it",
		Long: `Read a settings file, the ENTREPOT_ variables of the environment, and the file of
users and those of certificates if there are any, as serve would, and say what is
wrong. The exit code is 0 or 2.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := load(args[0], nil)
			if err != nil {
				return err
			}
			quiet := slog.New(slog.DiscardHandler)
			_, _, err = access(cfg.Auth, quiet)
			if _, bad := newGate(cfg, &reloads{log: quiet}, quiet); bad != nil {
				err = errors.Join(err, bad)
			}
			if err != nil {
				return settings(err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: ok\n", args[0])
			return err
		},
	}
}

// load reads settings from the file, the environment and, through change, the
// command line, and validates them.
func load(path string, change func(*conf.Config)) (conf.Config, error) {
	cfg, err := conf.Load(path, os.Environ())
	if err != nil {
		return cfg, settings(err)
	}
	if change != nil {
		change(&cfg)
	}
	return cfg, settings(cfg.Validate())
}

func configCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "config",
		Short:   "Print a settings file with all defaults and comments",
		Example: "  entrepot config > entrepot.toml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(c.OutOrStdout(), conf.Sample)
			return err
		},
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "entrepot %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// version is the module's, or the commit that it was built from.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return b.Main.Version
}
