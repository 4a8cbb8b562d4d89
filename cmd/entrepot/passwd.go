package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/core/auth"
)

// userEdit is what `entrepot passwd` was told to do with a user.
type userEdit struct {
	file, name         string
	remove, list       bool
	noPassword, wamp   bool
	psk                string            // new, stdin, none
	attributes         map[string]string // by flag, of those that were given
	made               string            // the key that was made, in hex
	groups, protocols  string
	listeners          string
	networks           string
	connections, bytes string
	messages           string
}

// What --psk may be.
const (
	newKey  = "new"
	readKey = "stdin"
	noKey   = "none"
)

func passwdCommand() *cobra.Command {
	var e userEdit
	c := &cobra.Command{
		Use:   "passwd FILE [NAME]",
		Short: "Users in a file: add one, change what it is and may, take it out, list all",
		Long: `Add the user NAME to a file of users, give it another password, or change what
the file says of it. The file is made when it is not there; the other users in it
stay as they are.

A password is asked for twice and not shown; when standard input is no terminal,
its first line is the password. It is asked for when the user is new, when no flag
says what else to change, and with --wampcra. A user who comes in by a
certificate, a token or a key needs none: --no-password.

What is not said of a user is not restricted: without --protocols it may come in
by all of them. A flag with "" takes back what was said. Rules of who may publish
and subscribe to what are in a file of their own: entrepot acl --help.

Name the file to the broker as auth.users in its settings, or as below. From then
on each client needs to be one of the users. The broker reads it at the start and
at 'entrepot reload'; who was changed or taken out then is disconnected.

The file has one line for each user: the name, a colon, a hash from which nobody
can tell the password (argon2id), and KEY=VALUE for the rest. Keys for DTLS and
WAMP-CRA are secrets, and only the file's owner can read it. Lines with bcrypt
hashes and those of mosquitto_passwd are good too.`,
		Example: `  entrepot passwd users ann                                   asks for the password
  entrepot passwd users ann < password.txt                    reads it
  entrepot passwd users ann --groups ops,night --max-messages 100
  entrepot passwd users gate --protocols mqtt --networks 10.0.0.0/8,192.0.2.7
  entrepot passwd users dev-7 --no-password --psk new         prints a key for DTLS
  entrepot passwd users ann --wampcra                         asks for the password
  entrepot passwd --delete users ann
  entrepot passwd --list users
  ENTREPOT_AUTH_USERS=users entrepot serve                    lets in these, and nobody else
  entrepot sub 'mqtt://ann:PASSWORD@127.0.0.1:1883/plant/#'`,
		Args: cobra.RangeArgs(1, 2),
	}
	e.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		e.file, e.name = args[0], strings.Join(args[1:], "")
		e.gather(c)
		if err := e.check(len(args)); err != nil {
			return usage(err)
		}
		if e.list {
			return e.tellAll(c)
		}
		did, err := e.do(c)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: user %s %s\n", e.file, e.name, did)
		if err == nil && e.made != "" {
			_, err = fmt.Fprintf(c.OutOrStdout(), "its key in hex, which is not shown again: %s\n", e.made)
		}
		return err
	}
	return c
}

func (e *userEdit) flags(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&e.list, "list", false, "list the users and what is said of them, without secrets")
	f.BoolVar(&e.remove, "delete", false, "take the user out of the file")
	f.StringVar(&e.groups, "groups", "", "`LIST` of groups that the user is in, for the rules: ops,night")
	f.StringVar(&e.protocols, "protocols", "", "`LIST` of the protocols that the user may come in by: mqtt,stomp,amqp,wamp,coap,http")
	f.StringVar(&e.listeners, "listeners", "", "`LIST` of the listeners that it may come in on, as in the settings: tls:0.0.0.0:8883")
	f.StringVar(&e.networks, "networks", "", "`LIST` of networks and addresses that it may come from: 10.0.0.0/8,192.0.2.7")
	f.StringVar(&e.connections, "max-connections", "", "`N` connections at once at most")
	f.StringVar(&e.messages, "max-messages", "", "`N` messages a second at most")
	f.StringVar(&e.bytes, "max-bytes", "", "`N` bytes of payload a second at most")
	f.BoolVar(&e.wamp, "wampcra", false, "keep a key for WAMP-CRA too, which is made from the password")
	f.StringVar(&e.psk, "psk", "", "key for DTLS, whose identity is the user's name; `FROM` is new (one is made and printed),\n"+
		"stdin (hex, the input's next line) or none")
	f.BoolVar(&e.noPassword, "no-password", false, "no password lets the user in")
}

// gather keeps the attributes whose flags were given.
func (e *userEdit) gather(c *cobra.Command) {
	e.attributes = map[string]string{}
	for _, key := range auth.AttributeNames() {
		if f := c.Flags().Lookup(key); f != nil && f.Changed && key != "psk" {
			e.attributes[key] = f.Value.String()
		}
	}
}

// check looks at what was asked for.
func (e *userEdit) check(args int) error {
	changes := e.noPassword || e.wamp || e.psk != "" || len(e.attributes) > 0
	switch {
	case e.list && (args == 2 || e.remove || changes):
		return errors.New("--list: a file and nothing else")
	case e.list:
		return nil
	case args == 1:
		return errors.New("the user's name is missing")
	case e.remove && changes:
		return errors.New("--delete: with no other flag")
	}
	return e.checkChange()
}

func (e *userEdit) checkChange() error {
	switch {
	case e.noPassword && e.wamp:
		return errors.New("--wampcra makes a key from the password: not with --no-password")
	case !slices.Contains([]string{"", newKey, readKey, noKey}, e.psk):
		// Whoever wrote a key here has shown it to the machine already.
		return fmt.Errorf("--psk: one of %s, %s, %s; a key of your own comes by standard input", newKey, readKey, noKey)
	}
	return auth.CheckName(e.name)
}

// tellAll prints a line for each user.
func (e *userEdit) tellAll(c *cobra.Command) error {
	all, err := auth.ListUsers(e.file)
	if err != nil {
		return err
	}
	for _, u := range all {
		line := u.Name + ":"
		if u.Password {
			line += " password"
		}
		if _, err := fmt.Fprintln(c.OutOrStdout(), strings.Join(append([]string{line}, u.Attributes...), " ")); err != nil {
			return err
		}
	}
	return nil
}

// do changes the file and says what it did.
func (e *userEdit) do(c *cobra.Command) (did string, err error) {
	if e.remove {
		return "deleted", auth.DeleteUser(e.file, e.name)
	}
	known, err := auth.HasUser(e.file, e.name)
	if err != nil {
		return "", err
	}
	change := auth.Change{NoPassword: e.noPassword, CRA: e.wamp, Attributes: e.attributes}
	if e.wamp || !e.noPassword && (!known || e.psk == "" && len(e.attributes) == 0) {
		if change.Password, err = askPassword(c, e.name, 2); err != nil {
			return "", err
		}
		if change.Password == "" {
			return "", errors.New("the password is empty")
		}
	}
	if err := e.key(c); err != nil {
		return "", err
	}
	found, err := auth.ChangeUser(e.file, e.name, change)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "added", nil
	case change.Password != "":
		return "has a new password", nil
	}
	return "changed", nil
}

// key makes the key for DTLS, or reads it.
func (e *userEdit) key(c *cobra.Command) (err error) {
	switch e.psk {
	case newKey:
		var key [32]byte
		rand.Read(key[:]) // never fails
		e.made = hex.EncodeToString(key[:])
		e.attributes["psk"] = e.made
	case readKey:
		if e.attributes["psk"], err = askSecret(c, "Key in hex for "+e.name, 1); err == nil && e.attributes["psk"] == "" {
			err = errors.New("the key is empty")
		}
	case noKey:
		e.attributes["psk"] = ""
	}
	return err
}
