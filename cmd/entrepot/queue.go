package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"entrepot/adapters/admin"
)

func queueCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "queue",
		Short: "Look into the queues of a running broker, and put them in order",
		Long: `Look into the named queues of a running broker, and put them in order. The broker
is found by its data directory, as by 'entrepot backup', or by --http. With --url it
may be on another machine, and have users: --user asks for the password, unless
the variable ENTREPOT_PASSWORD has it. That user needs the admin right on the queue.`,
		Example: `  entrepot queue list
  entrepot queue peek orders-dead --count 5
  entrepot queue replay orders-dead --reason delivery_limit
  entrepot queue move orders-dead orders-parked
  entrepot queue purge orders-dead --topic plant/7/temp
  entrepot queue list --url https://broker.example:8443 --user ann --cafile ca.pem`,
	}
	c.AddCommand(queueList(), queuePeek(),
		queueWork("purge QUEUE", "Remove messages that wait, all or those chosen", admin.PurgePath, "purged"),
		queueWork("move QUEUE TO", "Put messages into another queue, all or those chosen", admin.MovePath, "moved"),
		queueWork("replay QUEUE", "Put dead letters back into the queues that gave them up", admin.ReplayPath, "replayed"))
	return c
}

func queueList() *cobra.Command {
	var b running
	c := &cobra.Command{Use: "list", Short: "List the queues with their figures", Args: cobra.NoArgs}
	b.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := b.get(c, admin.QueuesPath, nil)
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		// A pipe that was closed shows at the last of them.
		_, err = fmt.Fprintf(out, "%9s %9s %12s %9s %12s  %-16s %s\n", "ready", "unsettled", "bytes", "consumers", "dead letters", "policy", "queue")
		for _, q := range o.Queues {
			_, err = fmt.Fprintf(out, "%9d %9d %12d %9d %12d  %-16s %s\n", q.Messages, q.Unsettled, q.Bytes, q.Consumers, q.DeadLetters,
				cmp.Or(q.Policy, "-"), q.Name)
		}
		return err
	}
	return c
}

// pickFlags choose messages.
func pickFlags(c *cobra.Command, p *admin.Pick) {
	c.Flags().StringVar(&p.Topic, "topic", "", "only those with exactly this `TOPIC`")
	c.Flags().StringVar(&p.Reason, "reason", "", "only dead letters of this `REASON`: rejected, expired, maxlen, delivery_limit")
	c.Flags().StringVar(&p.Contains, "contains", "", "only those with this `TEXT` in the payload")
}

func queuePeek() *cobra.Command {
	var b running
	var p admin.Pick
	var count int
	var after uint64
	c := &cobra.Command{Use: "peek QUEUE", Short: "Show messages that wait, as JSON, one a line; they stay", Args: cobra.ExactArgs(1)}
	b.flags(c)
	pickFlags(c, &p)
	c.Flags().IntVar(&count, "count", 10, "how `MANY` at most, up to 1000")
	c.Flags().Uint64Var(&after, "after", 0, "begin behind this `SEQ`")
	c.RunE = func(c *cobra.Command, args []string) error {
		o, err := b.get(c, admin.MessagesPath, url.Values{"queue": args, "count": {strconv.Itoa(count)},
			"after": {strconv.FormatUint(after, 10)}, "topic": {p.Topic}, "reason": {p.Reason}, "contains": {p.Contains}})
		if err != nil {
			return err
		}
		return printMessages(c.OutOrStdout(), o.Messages)
	}
	return c
}

func printMessages(w io.Writer, list []admin.MessageShown) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, m := range list {
		if err := e.Encode(m); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// queueWork is a command that does something to messages.
func queueWork(use, short, path, did string) *cobra.Command {
	var b running
	var w admin.Wish
	args := 1
	if path == admin.MovePath {
		args = 2
	}
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args)}
	b.flags(c)
	pickFlags(c, &w.Pick)
	c.Flags().IntVar(&w.Most, "most", 0, "no more than so `MANY` (default all)")
	c.RunE = func(c *cobra.Command, args []string) error {
		w.Queue = args[0]
		if len(args) > 1 {
			w.To = args[1]
		}
		o, err := b.post(c, path, w)
		if err != nil && o.Count > 0 {
			return fmt.Errorf("%d %s, then: %w", o.Count, did, err)
		}
		if err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d %s\n", o.Count, did)
		}
		return err
	}
	return c
}

func delayedCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "delayed",
		Short: "Look at the messages of a running broker that wait for their time",
		Long: `Look at the messages of a running broker that wait for their time, take some back
or send them on. The broker is found as by 'entrepot queue'.`,
	}
	c.AddCommand(delayedList(),
		delayedOne("cancel ID", "Take a message back", admin.CancelPath, "cancelled"),
		delayedOne("fire ID", "Send a message on now", admin.FirePath, "sent on"))
	return c
}

func delayedList() *cobra.Command {
	var b running
	var count int
	var after string
	c := &cobra.Command{Use: "list", Short: "Show what waits, the next first, as JSON, one a line", Args: cobra.NoArgs}
	b.flags(c)
	c.Flags().IntVar(&count, "count", 100, "how `MANY` at most, up to 1000")
	c.Flags().StringVar(&after, "after", "", "begin behind this `ID`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := b.get(c, admin.DelayedPath, url.Values{"count": {strconv.Itoa(count)}, "after": {after}})
		if err != nil {
			return err
		}
		return printMessages(c.OutOrStdout(), o.Messages)
	}
	return c
}

func delayedOne(use, short, path, did string) *cobra.Command {
	var b running
	c := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1)}
	b.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if _, err := b.post(c, path, admin.Wish{ID: args[0]}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", args[0], did)
		return err
	}
	return c
}
