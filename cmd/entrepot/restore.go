package main

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"entrepot/core/store"
)

func restoreCommand() *cobra.Command {
	var file, data string
	c := &cobra.Command{
		Use:   "restore DIR",
		Short: "Make a data directory from a backup",
		Long: `Copy a backup, DIR, into a broker's data directory, which must be empty or not be
there, and look whether it can be opened. The backup stays as it is. Then start
the broker with 'entrepot serve' and the same --data.

A backup that a newer version has written is refused, and so is one that was not
finished. Messages that were acknowledged after the backup was taken are there
again.`,
		Example: `  entrepot restore /mnt/backups/monday
  entrepot restore --data /var/lib/entrepot /mnt/backups/monday`,
		Args: cobra.ExactArgs(1),
	}
	dataFlags(c, &file, &data)
	c.RunE = func(c *cobra.Command, args []string) error {
		dir, err := dataDir(c, file, data)
		if err != nil {
			return err
		}
		backup := filepath.Clean(args[0])
		if err := store.Restore(backup, dir, slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
		size, err := treeSize(dir)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s restored from %s: %s\n", dir, backup, mebibytes(size))
		return err
	}
	return c
}

func repairCommand() *cobra.Command {
	var file, data string
	c := &cobra.Command{
		Use:   "repair NEW-DIR",
		Short: "Save what can be read of a damaged data directory into a new one",
		Long: `Read a damaged data directory, as far as its checksums say that it can be trusted,
and write what was read into NEW-DIR, which must be empty or not be there. The
damaged directory stays as it is. Keep it until the new one has proved itself.

No broker may run on the directory. When it does not start for damage, or logs
"data damaged", this is the command.

The report says what was lost: which file, why, and in which range of keys, in
hexadecimal. It ends well when the rest was saved, however much was lost.`,
		Example: `  entrepot repair entrepot-data-repaired
  entrepot repair --data /var/lib/entrepot /var/lib/entrepot-repaired
  entrepot serve --data /var/lib/entrepot-repaired`,
		Args: cobra.ExactArgs(1),
	}
	dataFlags(c, &file, &data)
	c.RunE = func(c *cobra.Command, args []string) error {
		dir, err := dataDir(c, file, data)
		if err != nil {
			return err
		}
		saved := filepath.Clean(args[0])
		r, err := store.Repair(dir, saved, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c.OutOrStdout(), repairReport(r, dir, saved))
		return err
	}
	return c
}

// repairReport is a repair's result for people.
func repairReport(r store.Report, dir, saved string) string {
	text := fmt.Sprintf("saved from %s into %s: %d entries, %s\n", dir, saved, r.Keys, mebibytes(int64(r.Bytes)))
	if len(r.Lost) == 0 {
		text += "lost: nothing\n"
	}
	for _, l := range r.Lost {
		text += fmt.Sprintf("lost: %v\n", l)
	}
	if r.Guessed {
		text += "The list of files could not be read whole: messages that were acknowledged may be there again.\n"
	}
	return text
}
