package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"entrepot/cmd/entrepot/internal/client"
)

var errNoTopic = errors.New("no topic: the URL ends behind the host, and there is no --topic")

// connection is what pub and sub share: how to reach a broker.
type connection struct {
	options client.Options
	topics  []string
	token   string // a file
	quiet   bool
}

func (n *connection) flags(c *cobra.Command, topic string) {
	f := c.Flags()
	f.StringArrayVarP(&n.topics, "topic", "t", nil, topic)
	f.StringVarP(&n.options.Version, "mqtt-version", "V", "5", "MQTT `VERSION`, 3.1.1 or 5")
	f.StringVar(&n.options.Host, "host", "/", "STOMP host header `NAME`, for some brokers the virtual host")
	f.StringVar(&n.options.Socket, "unix", "", "connect to the unix socket `PATH` instead of the URL's host")
	f.StringVar(&n.options.CAs, "cafile", "", "trust the CAs in `FILE` instead of the system's (mqtts://, stomps://)")
	f.StringVar(&n.options.Cert, "cert", "", "show the broker the certificate in `FILE`")
	f.StringVar(&n.options.Key, "key", "", "`FILE` of that certificate's key")
	f.StringVar(&n.token, "token", "", "log in with the token in `FILE`, or - for the input, in place of a password")
	f.DurationVar(&n.options.Timeout, "timeout", 10*time.Second, "wait for the broker's answers for `TIME`")
	f.BoolVar(&n.quiet, "quiet", false, "no notes on standard error")
}

// urlAnd checks that there is a URL, and at most so many arguments behind it.
func urlAnd(more int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return errors.New("no URL")
		case len(args) > 1+more:
			return fmt.Errorf("unexpected argument %q: one with blanks stands in quotes", args[1+more])
		}
		return nil
	}
}

// url reads the URL and checks the flags that all share.
func (n *connection) url(c *cobra.Command, text string) (client.URL, error) {
	u, err := client.ParseURL(text)
	switch {
	case err != nil:
		return u, err
	case n.options.Version != "3.1.1" && n.options.Version != "5":
		return u, fmt.Errorf("--mqtt-version %q: 3.1.1 or 5", n.options.Version)
	case n.options.Timeout <= 0:
		return u, errors.New("--timeout: above 0")
	case !u.TLS && (n.options.CAs != "" || n.options.Cert != ""):
		return u, errors.New("--cafile, --cert: for mqtts:// and stomps:// only")
	case (n.options.Cert == "") != (n.options.Key == ""):
		return u, errors.New("--cert and --key: both or none")
	case u.Protocol == client.MQTT && c.Flags().Changed("host"):
		return u, errors.New("--host is for stomp:// only")
	}
	return u, errors.Join(n.checkToken(u), n.notForSTOMP(c, u, "mqtt-version"))
}

func (n *connection) checkToken(u client.URL) error {
	switch {
	case n.token != "" && u.Password != "":
		return errors.New("--token takes the place of the URL's password: one or the other")
	case n.token != "" && u.User == "" && u.Protocol == client.MQTT && n.options.Version == "3.1.1":
		return errors.New("--token: MQTT 3.1.1 has no password without a user: mqtt://USER@HOST")
	}
	return nil
}

// notForSTOMP refuses flags that would do nothing.
func (n *connection) notForSTOMP(c *cobra.Command, u client.URL, flags ...string) error {
	for _, f := range flags {
		if u.Protocol == client.STOMP && c.Flags().Changed(f) {
			return fmt.Errorf("--%s is for mqtt:// only", f)
		}
	}
	return nil
}

func (n *connection) dial(c *cobra.Command, u client.URL) (client.Conn, error) {
	n.options.Note = func(text string) { n.note(c, text) }
	if err := n.proof(c, &u); err != nil {
		return nil, err
	}
	return client.Dial(c.Context(), u, n.options)
}

// proof fills in what proves the user and does not stand in the URL, where others
// on this machine could read it.
func (n *connection) proof(c *cobra.Command, u *client.URL) (err error) {
	switch {
	case n.token != "":
		err = waiting(c.Context(), func() (err error) {
			u.Password, err = readToken(n.token, c.InOrStdin())
			return err
		})
		if err == nil && u.Password == "" {
			err = fmt.Errorf("token: %s is empty", n.token)
		}
	case u.User != "" && u.Password == "":
		u.Password = os.Getenv(passwordVariable)
	}
	return err
}

// finish closes the connection and returns the first error.
func finish(err error, conn client.Conn) error {
	closed := conn.Close()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return err
	}
	return closed
}

func (n *connection) note(c *cobra.Command, text string) {
	if !n.quiet {
		c.PrintErrln("entrepot: " + text)
	}
}

// parseHeaders reads NAME:VALUE; blanks around the value are not part of it.
func parseHeaders(texts []string) ([]client.Header, error) {
	var all []client.Header
	for _, text := range texts {
		name, value, ok := strings.Cut(text, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("--header %q: not NAME:VALUE", text)
		}
		all = append(all, client.Header{Name: name, Value: strings.TrimSpace(value)})
	}
	return all, nil
}
