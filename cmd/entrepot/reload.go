package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// reloadPath is where a broker is asked to read its files again.
const reloadPath = "/api/v1/reload"

// reloadAnswer is what was read again, or why nothing was.
type reloadAnswer struct {
	Reloaded []string `json:"reloaded,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// reloads is what a running broker can read again. All of it is read before any
// of it counts: when one file is bad, everything stays as it was.
type reloads struct {
	log *slog.Logger

	mu    sync.Mutex
	parts []reloadPart
}

// reloadPart is one thing that can be read again.
type reloadPart struct {
	name string
	// read reads and checks; apply, which cannot fail, makes what was read count.
	// Neither is called twice at once.
	read func() (apply func(), err error)
}

// add names one more part. Called before the broker is ready.
func (r *reloads) add(name string, read func() (apply func(), err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, reloadPart{name, read})
}

// all reads everything again; the error has a line for each part that is bad,
// and then nothing has changed. The log tells either.
func (r *reloads) all() (names []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	var applies []func()
	for _, p := range r.parts {
		apply, err := p.read()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		names, applies = append(names, p.name), append(applies, apply)
	}
	if err := errors.Join(errs...); err != nil {
		r.log.Error("not reloaded, all stays as it was", "error", err)
		return nil, err
	}
	for _, apply := range applies {
		apply()
	}
	r.log.Info("reloaded", "what", strings.Join(names, ", "))
	return names, nil
}

// onSignal reloads at each SIGHUP until ctx ends.
func (r *reloads) onSignal(ctx context.Context) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				// The log has the error.
				_, _ = r.all()
			case <-ctx.Done():
				return
			}
		}
	}()
}

// ServeHTTP implements http.Handler, for who may ask.
func (r *reloads) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	names, err := r.all()
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, reloadAnswer{Error: "nothing was reloaded: " + err.Error()})
		return
	}
	answer(w, http.StatusOK, reloadAnswer{Reloaded: names})
}

// reloadCommand is `entrepot reload`.
func reloadCommand() *cobra.Command {
	var b running
	c := &cobra.Command{
		Use:   "reload",
		Short: "Let a running broker read its certificates and other files again",
		Long: `Let a running broker read again, while its clients stay connected: certificates,
keys, CAs and lists of revocations, which count for whoever connects from then on,
and the rules of who may do what, which count for everybody at once.
When one file is bad, nothing changes, and the answer says what is wrong with it.
SIGHUP does the same; the answer is in the broker's log then.

Settings themselves are read at the start only. The broker is found by its data
directory, as by 'entrepot backup', or by --http or --url.`,
		Example: `  entrepot reload
  entrepot reload --data /var/lib/entrepot
  kill -HUP "$(pidof entrepot)"`,
		Args: cobra.NoArgs,
	}
	b.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		at, err := b.find(c)
		if err != nil {
			return err
		}
		var a reloadAnswer
		if err := command(c.Context(), at, "reload", reloadPath, struct{}{}, &a); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "reloaded: %s\n", strings.Join(a.Reloaded, ", "))
		return err
	}
	return c
}
