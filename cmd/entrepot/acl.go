package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/core/auth"
	"entrepot/routing"
)

// aclCommand is `entrepot acl`.
func aclCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "acl",
		Short: "Say who may do what, by a file of rules",
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

// asking is what acl explain is asked.
type asking struct {
	config, rules, spelling string
	who                     auth.Principal
}

func aclExplainCommand() *cobra.Command {
	var q asking
	c := &cobra.Command{
		Use:   "explain ACTION OBJECT",
		Short: "Say which rule decides",
		Long: `Say which rule decides whether somebody may do something, and how the name is
spelt in rules. ACTION is publish, subscribe, consume, declare, call, register or
admin. OBJECT is a topic or a filter, queue:NAME, exchange:NAME, rpc:NAME, or an
address as a protocol's clients write it: /topic/plant.7.temp, /queue/orders,
/rpc/dev.reboot (STOMP), $queue/orders (MQTT), /t/plant/7/temp, /q/orders (CoAP).
--as reads a plain topic in a protocol's spelling.`,
		Example: `  entrepot acl explain --rules rules.txt --user ann publish plant/7/temp
  entrepot acl explain --config entrepot.toml --user ann --group ops subscribe --as amqp 'plant.*.temp'
  entrepot acl explain --rules rules.txt consume queue:orders`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return q.explain(c.OutOrStdout(), args) },
	}
	f := c.Flags()
	f.StringVarP(&q.config, "config", "c", "", "settings `FILE`, whose auth.rules counts")
	f.StringVar(&q.rules, "rules", "", "`FILE` of rules")
	f.StringVar(&q.who.User, "user", "", "`NAME` of who is logged in; without it, somebody who is not")
	f.StringSliceVar(&q.who.Groups, "group", nil, "`NAME` of a group that the user is in (repeatable)")
	f.StringVar(&q.who.ClientID, "client-id", "", "`ID` of the client, for %c")
	f.StringVar(&q.spelling, "as", "", "`PROTOCOL` in whose spelling the topic is: mqtt, stomp, amqp, wamp or coap")
	return c
}

func (q *asking) explain(out io.Writer, args []string) error {
	action, err := auth.ParseAction(args[0])
	if err != nil {
		return usage(err)
	}
	var o auth.Object
	if len(args) == 2 {
		if o, err = objectOf(args[1], q.spelling); err != nil {
			return usage(err)
		}
	} else if action != auth.Admin {
		return usage(fmt.Errorf("%s what?", action))
	}
	if q.rules == "" {
		cfg, err := load(q.config, nil)
		if err != nil {
			return err
		}
		if q.rules = cfg.Auth.Rules; q.rules == "" {
			return usage(errors.New("no rules: --rules FILE, or --config FILE with auth.rules"))
		}
	}
	rules, err := auth.ReadRules(q.rules)
	if err != nil {
		return settings(err)
	}
	d, err := rules.Explain(q.who, action, o)
	if err != nil {
		return usage(err)
	}
	_, err = io.WriteString(out, answerOf(q.who, action, o, d, q.rules))
	return err
}

// addressKind is one way to write an object: what it begins with, whose clients
// write it ("" for rules), and how the rest is spelt.
type addressKind struct {
	prefix, of, spelling string
	kind                 auth.ObjectKind
}

func addressKinds() []addressKind {
	return []addressKind{
		{"queue:", "", "", auth.Queue}, {"exchange:", "", "", auth.Exchange}, {"rpc:", "", "mqtt", auth.Procedure}, {"topic:", "", "mqtt", auth.Topic},
		{"/topic/", "stomp", "stomp", auth.Topic}, {"/rpc/", "stomp", "stomp", auth.Procedure},
		{"/queue/", "stomp", "level", auth.Queue}, {"/amq/queue/", "stomp", "level", auth.Queue}, {"/exchange/", "stomp", "stomp", auth.Exchange},
		{"$queue/", "mqtt", "level", auth.Queue}, {"$rpc/", "mqtt", "mqtt", auth.Procedure}, {"$exchange/", "mqtt", "mqtt", auth.Exchange},
		{"/t/", "coap", "coap", auth.Topic}, {"/q/", "coap", "", auth.Queue}, {"/x/", "coap", "coap", auth.Exchange},
	}
}

// objectOf reads an object: as rules write it, or as an address of a protocol,
// of that one only where spelling says which.
func objectOf(text, spelling string) (auth.Object, error) {
	for _, p := range addressKinds() {
		rest, ok := strings.CutPrefix(text, p.prefix)
		switch {
		case !ok || spelling != "" && p.of != "" && p.of != spelling:
		case p.kind == auth.Exchange && p.of != "":
			return exchangeOf(rest, p.spelling)
		default:
			return objectAs(rest, p.spelling, p.kind)
		}
	}
	if spelling == "" {
		spelling = "mqtt"
	}
	return objectAs(text, spelling, auth.Topic)
}

// exchangeOf reads NAME/KEY. What is at amq.topic is a topic.
func exchangeOf(text, spelling string) (auth.Object, error) {
	name, key, _ := strings.Cut(text, "/")
	o, err := objectAs(name, "level", auth.Exchange)
	if err == nil && o.Name == "amq.topic" {
		return objectAs(key, spelling, auth.Topic)
	}
	return o, err
}

func objectAs(text, spelling string, kind auth.ObjectKind) (auth.Object, error) {
	var f routing.Filter
	var err error
	switch spelling {
	case "":
		return auth.Object{Kind: kind, Name: text}, nil
	case "level":
		t, err := routing.ParseTopic(text)
		if err != nil || t.Len() != 1 {
			return auth.Object{}, fmt.Errorf("%q: a name of a queue or an exchange is one level", text)
		}
		return auth.Object{Kind: kind, Name: t.Levels()[0]}, nil
	case "mqtt":
		f, err = routing.ParseFilter(text)
	case "stomp":
		f, err = routing.Dotted.ParseAngle(text)
	case "amqp":
		f, err = routing.Dotted.ParseFilter(text)
	case "wamp":
		f, err = routing.URI.ParseFilter(text)
	case "coap":
		var t routing.Topic
		t, err = routing.NewTopic(strings.Split(text, "/")...)
		f = t.Filter()
	default:
		return auth.Object{}, fmt.Errorf("no spelling %q: mqtt, stomp, amqp, wamp or coap", spelling)
	}
	if err != nil {
		return auth.Object{}, fmt.Errorf("%q: %w", text, err)
	}
	return auth.Object{Kind: kind, Name: f.String()}, nil
}

// answerOf is what the command prints.
func answerOf(who auth.Principal, a auth.Action, o auth.Object, d auth.Decision, file string) string {
	name := [...]string{auth.Topic: "", auth.Queue: "queue:", auth.Exchange: "exchange:", auth.Procedure: "rpc:"}[o.Kind] + o.Name
	user := "anonymous"
	if who.User != "" {
		user = "user:" + who.User
	}
	verdict := "denied"
	if d.Allowed {
		verdict = "allowed"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", verdict, strings.TrimSpace(fmt.Sprintf("%s %s %s", user, a, name)))
	if d.Line == 0 {
		fmt.Fprintf(&b, "no rule in %s stands for it\n", file)
		return b.String()
	}
	fmt.Fprintf(&b, "by %s:%d: %s\n", file, d.Line, d.Rule)
	for _, line := range d.Inside {
		fmt.Fprintf(&b, "a part of it is denied by line %d, and is left out\n", line)
	}
	return b.String()
}
