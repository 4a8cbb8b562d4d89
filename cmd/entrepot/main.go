package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// oneStop is how close to another a signal is none of its own: who ends a whole
// group of processes, as timeout(1) does, often signals each twice.
const oneStop = 100 * time.Millisecond

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		for first := time.Now(); time.Since(first) < oneStop; <-signals {
		}
		fmt.Fprintln(os.Stderr, "entrepot: second signal, ending at once")
		os.Exit(exitFailed)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "entrepot: %v\n", err)
	var u usageError
	if !errors.As(err, &u) {
		return exitFailed
	}
	if u.help {
		fmt.Fprintf(stderr, "Try '%s --help'.\n", cmd.CommandPath())
	}
	return exitUsage
}

// usageError is a command line or settings that make no sense; help tells
// whether the command's help helps.
type usageError struct {
	error
	help bool
}

func (u usageError) Unwrap() error { return u.error }

// usage makes an error one of usage.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err, true}
}

// settings makes an error one of settings.
func settings(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err, false}
}

// blameArguments makes each command's own check of its arguments one of usage.
func blameArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error { return usage(check(c, args)) }
	}
	for _, sub := range c.Commands() {
		blameArguments(sub)
	}
}
