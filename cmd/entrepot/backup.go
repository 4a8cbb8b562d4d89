package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"entrepot/adapters/admin"
	"entrepot/conf"
	"entrepot/core"
	"entrepot/core/store"
)

// backupPath is where a broker is asked for a backup.
const backupPath = "/api/v1/backup"

// backupRequest is what is asked, backupAnswer what was done or why not.
type backupRequest struct {
	Dir string `json:"dir"` // absolute, on the broker's machine
}

type backupAnswer struct {
	Bytes   int64   `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

func backupCommand() *cobra.Command {
	var at running
	c := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy a running broker's data into a new directory",
		Long: `Copy what a running broker has on disk into DIR, which must be empty or not be
there: everything that was confirmed before, as it stood at one moment. Clients
go on meanwhile. DIR may be on another disk; it may not be inside the data
directory. The broker writes it, as the user that it runs as.

The broker is found by its data directory, as a user who may read that, or by
--url, as a user who has the admin right; DIR is on the broker's machine. The
broker's HTTP must not be off. Interrupting this command does not interrupt the
backup.

While it is written, the data directory needs room for what changes meanwhile.
The data of a broker that does not run can be copied as it lies there.
'entrepot restore' makes a data directory from either copy.`,
		Example: `  entrepot backup /mnt/backups/monday
  entrepot backup --data /var/lib/entrepot /mnt/backups/monday
  entrepot backup --config /etc/entrepot.toml "/mnt/backups/$(date +%F)"`,
		Args: cobra.ExactArgs(1),
	}
	at.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		target, err := filepath.Abs(args[0])
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		to, err := at.find(c)
		if err != nil {
			return err
		}
		var a backupAnswer
		if err := command(c.Context(), to, "backup", backupPath, backupRequest{target}, &a); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "backup in %s: %s in %.1f s\n", target, mebibytes(a.Bytes), a.Seconds)
		return err
	}
	return c
}

// dataFlags say which data directory is meant.
func dataFlags(c *cobra.Command, file, data *string) {
	c.Flags().StringVarP(file, "config", "c", "", "settings `FILE` of the broker")
	c.Flags().StringVar(data, "data", "", "data `DIR` of the broker (default entrepot-data, in the current folder)")
}

// dataDir is the data directory that serve would have with the same flags.
func dataDir(c *cobra.Command, file, data string) (string, error) {
	cfg, err := load(file, func(cfg *conf.Config) {
		if c.Flags().Changed("data") {
			cfg.Store.Data = data
		}
	})
	if err == nil && cfg.Store.Data == "" {
		err = settings(errors.New("the settings keep everything in memory: there is no data directory"))
	}
	return cfg.Store.Data, err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// backups writes backups when asked over HTTP.
type backups struct {
	kept  *kept
	token string
	log   *slog.Logger
}

// takeCommands lets a broker be asked at web for backups and for work on its
// queues, and to read its files again: with the token, where there is a data
// directory to find it in.
func takeCommands(web *admin.Server, k *kept, of *core.Broker, again *reloads, log *slog.Logger) *backups {
	b := &backups{k, newToken(), log}
	if k.store != nil {
		web.SetToken(b.token)
	}
	web.HandleCommand(backupPath, b)
	web.HandleCommand(reloadPath, again)
	web.HandleQueues(of)
	return b
}

// announce leaves word in the data directory of where to ask. What it returns
// takes that back.
func (b *backups) announce(bound []socket) (withdraw func()) {
	if b.kept.store == nil || len(bound) == 0 {
		return func() {}
	}
	at, ok := reachable(bound)
	if !ok {
		b.log.Warn("no backup or reload can be asked for: HTTP has no listener that is neither for proxies nor for clients with certificates")
		return func() {}
	}
	at.Token = b.token
	if err := writeControl(b.kept.dir, at); err != nil {
		b.log.Warn("no backup or reload can be asked for", "error", err)
	}
	return func() {
		if err := dropControl(b.kept.dir); err != nil {
			b.log.Warn("left behind", "error", err)
		}
	}
}

// ServeHTTP implements http.Handler.
func (b *backups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q backupRequest
	switch {
	case b.kept.store == nil:
		answer(w, http.StatusConflict, backupAnswer{Error: "backup: the broker keeps everything in memory (--memory)"})
	case json.NewDecoder(r.Body).Decode(&q) != nil || !filepath.IsAbs(q.Dir):
		answer(w, http.StatusBadRequest, backupAnswer{Error: `backup: {"dir": "/ABSOLUTE/PATH"} expected`})
	default:
		b.write(w, q.Dir)
	}
}

func (b *backups) write(w http.ResponseWriter, dir string) {
	// A large one takes longer than other requests may. Where no deadline can
	// be moved there is none.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
	begin := time.Now()
	err := store.Backup(b.kept.store, dir)
	var size int64
	if err == nil {
		size, err = treeSize(dir)
	}
	if err != nil {
		answer(w, backupStatus(err), backupAnswer{Error: err.Error()})
		return
	}
	a := backupAnswer{Bytes: size, Seconds: time.Since(begin).Seconds()}
	b.log.Info("backup", "path", dir, "bytes", a.Bytes, "seconds", a.Seconds)
	answer(w, http.StatusOK, a)
}

// backupStatus is the HTTP status for what went wrong.
func backupStatus(err error) int {
	switch {
	case errors.Is(err, store.ErrTarget), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return http.StatusUnprocessableEntity
	case errors.Is(err, store.ErrBusy):
		return http.StatusConflict
	case errors.Is(err, syscall.ENOSPC):
		return http.StatusInsufficientStorage
	case errors.Is(err, store.ErrFailed), errors.Is(err, store.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// answer writes a whole answer. That the client went away meanwhile is its
// affair.
func answer(w http.ResponseWriter, status int, a any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

// treeSize is how many bytes the files under dir have.
func treeSize(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		i, err := e.Info()
		if err == nil {
			sum += i.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	return sum, nil
}
