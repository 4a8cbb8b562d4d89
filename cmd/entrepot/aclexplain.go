package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/core"
	"entrepot/core/auth"
)

// asking is what acl explain is asked.
type asking struct {
	config, rules, spelling string
	who                     auth.Principal

	settings auth.Config
	action   auth.Action
	object   auth.Object
}

func aclExplainCommand() *cobra.Command {
	var q asking
	c := &cobra.Command{
		Use:   "explain ACTION OBJECT",
		Short: "Say what a broker would decide, and by which list or rule",
		Long: `Say whether a broker would let somebody do something, which list or rule decides,
and how the name is spelt in rules. ACTION is publish, subscribe, consume, declare,
call, register or admin. OBJECT is a topic or a filter, queue:NAME, exchange:NAME,
rpc:NAME, or an address as a protocol's clients write it: /topic/plant.7.temp,
/queue/orders, /rpc/dev.reboot (STOMP), $queue/orders, $share/GROUP/FILTER (MQTT),
/t/plant/7/temp, /q/orders (CoAP). --as reads a plain topic in a protocol's spelling.

With --config the lists auth.deny_publish and auth.deny_subscribe count too, and the
groups that the users file gives to --user. With --rules alone that file decides.`,
		Example: `  entrepot acl explain --rules rules.txt --user ann publish plant/7/temp
  entrepot acl explain --config entrepot.toml --user ann subscribe --as amqp 'plant.*.temp'
  entrepot acl explain --rules rules.txt --group ops consume queue:orders`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return q.explain(c.OutOrStdout(), args) },
	}
	f := c.Flags()
	f.StringVarP(&q.config, "config", "c", "", "settings `FILE`, as serve reads it")
	f.StringVar(&q.rules, "rules", "", "`FILE` of rules, in place of auth.rules")
	f.StringVar(&q.who.User, "user", "", "`NAME` of who is logged in; without it, somebody who is not")
	f.StringSliceVar(&q.who.Groups, "group", nil, "`NAME` of a group that the user is in, beside those of the users file (repeatable)")
	f.StringVar(&q.who.ClientID, "client-id", "", "`ID` of the client, for %c")
	f.StringVar(&q.spelling, "as", "", "`PROTOCOL` in whose spelling the topic is: mqtt, stomp, amqp, wamp or coap")
	return c
}

func (q *asking) explain(out io.Writer, args []string) error {
	if err := q.parse(args); err != nil {
		return usage(err)
	}
	rights, err := q.read()
	if err != nil {
		return err
	}
	note, err := q.meet()
	if err != nil {
		return settings(err)
	}
	d, err := rights.Explain(q.who, q.action, q.object)
	if err != nil {
		return usage(err)
	}
	why := core.Reserved(q.action, q.object)
	allowed := why == "" && rights.Decide(q.who, q.action, q.object) == nil
	if why == "" {
		why = q.reason(d)
	}
	_, err = io.WriteString(out, q.verdict(allowed)+why+note)
	return err
}

// parse reads what somebody wants to do. What clients do to a queue or a procedure
// by publishing and subscribing has names of its own.
func (q *asking) parse(args []string) (err error) {
	if q.action, err = auth.ParseAction(args[0]); err != nil {
		return err
	}
	if len(args) == 1 {
		if q.action != auth.Admin {
			return fmt.Errorf("%s what?", q.action)
		}
		return nil
	}
	if q.object, err = objectOf(args[1], q.spelling); err != nil {
		return err
	}
	switch kind := q.object.Kind; {
	case kind == auth.Procedure && q.action == auth.Publish:
		q.action = auth.Call
	case kind == auth.Procedure && q.action == auth.Subscribe:
		q.action = auth.Register
	case kind == auth.Queue && q.action == auth.Subscribe:
		q.action = auth.Consume
	}
	if !slices.Contains(q.object.Kind.Actions(), q.action) {
		return fmt.Errorf("%s goes not with %q", q.action, args[1])
	}
	// A callee gets all that its pattern matches, or is none.
	q.object.Whole = q.object.Whole || q.action == auth.Register
	return nil
}

// read reads the settings, and by them the rights.
func (q *asking) read() (*auth.Rights, error) {
	if q.rules == "" || q.config != "" {
		all, err := load(q.config, nil)
		if err != nil {
			return nil, err
		}
		q.settings = all.Auth
	}
	if q.rules != "" {
		q.settings.Rules = q.rules
	}
	rights, err := q.settings.Rights()
	if err == nil && rights.None() && q.config == "" {
		return nil, usage(errors.New("no rules: --rules FILE, or --config FILE"))
	}
	return rights, settings(err)
}

// meet looks who asks in the users file, and tells what is there to know.
func (q *asking) meet() (note string, err error) {
	c := q.settings
	guarded := c.Users != "" || len(c.Token.Keys) > 0 || c.Certificate.User != ""
	switch {
	case q.who.User == "" && guarded && len(c.Anonymous) == 0:
		return "but nobody comes in without a log-in\n", nil
	case q.who.User == "" && guarded:
		return fmt.Sprintf("without a log-in clients come in by %s only\n", strings.Join(c.Anonymous, ", ")), nil
	case q.who.User == "" || c.Users == "":
		return "", nil
	}
	users, err := auth.ReadUsers(c.Users)
	if err != nil {
		return "", err
	}
	groups, listed := users.Groups(q.who.User)
	switch {
	case !listed:
		return fmt.Sprintf("user %s is not in %s\n", q.who.User, c.Users), nil
	case len(groups) == 0:
		return "", nil
	}
	q.who.Groups = append(q.who.Groups, groups...)
	return fmt.Sprintf("user %s is in the groups of %s: %s\n", q.who.User, c.Users, strings.Join(groups, ", ")), nil
}

// verdict is the first line.
func (q *asking) verdict(allowed bool) string {
	name := [...]string{auth.Topic: "", auth.Queue: "queue:", auth.Exchange: "exchange:", auth.Procedure: "rpc:"}[q.object.Kind] + q.object.Name
	user := "anonymous"
	if q.who.User != "" {
		user = "user:" + q.who.User
	}
	word := "denied"
	if allowed {
		word = "allowed"
	}
	return fmt.Sprintf("%s: %s\n", word, strings.TrimSpace(fmt.Sprintf("%s %s %s", user, q.action, name)))
}

// reason is what decided, and what it leaves out.
func (q *asking) reason(d auth.Decision) string {
	var b strings.Builder
	switch {
	case d.List != "":
		fmt.Fprintf(&b, "by auth.%s%s: %s\n", d.List, from(q.config), d.Rule)
	case d.Line > 0:
		fmt.Fprintf(&b, "by %s:%d: %s\n", q.settings.Rules, d.Line, d.Rule)
	case q.settings.Rules != "":
		fmt.Fprintf(&b, "no rule in %s stands for it\n", q.settings.Rules)
	default:
		fmt.Fprintf(&b, "there are no rules%s, and no list denies it\n", from(q.config))
	}
	rest := "is left out"
	if q.object.Whole {
		rest = "it is had as a whole or not at all"
	}
	for _, line := range d.Inside {
		fmt.Fprintf(&b, "a part of it is denied by line %d, and %s\n", line, rest)
	}
	for _, list := range d.Without {
		fmt.Fprintf(&b, "a part of it is denied by auth.%s, and %s\n", list, rest)
	}
	return b.String()
}

func from(file string) string {
	if file == "" {
		return ""
	}
	return " of " + file
}
