package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"entrepot/core/auth"
)

// maxPassword bounds what is read as a password, in bytes.
const maxPassword = 1024

func passwdCommand() *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:   "passwd FILE NAME",
		Short: "Add a user to a file, give it another password, or take it out",
		Long: `Add the user NAME to a file of users, or give it another password. The file is
made when it is not there; the other users in it stay as they are.

The password is asked for twice and not shown. When standard input is no
terminal, its first line is the password.

Name the file to the broker with the key auth.users of its settings, or as
below. From then on a client needs the name and the password of one of the
users. The broker reads the file when it starts.

The file has one line for each user: the name, a colon, and a hash from which
nobody can tell the password (argon2id). Only the file's owner can read it.
Lines with bcrypt hashes, which other programs write, are good too.`,
		Example: `  entrepot passwd users ann                                        asks for the password
  entrepot passwd users ann < password.txt                         reads it
  entrepot passwd --delete users ann
  ENTREPOT_AUTH_USERS=users entrepot serve                         lets ann in, and nobody else
  entrepot sub 'mqtt://ann:PASSWORD@127.0.0.1:1883/plant/#'`,
		Args: cobra.ExactArgs(2),
	}
	c.Flags().BoolVar(&remove, "delete", false, "take the user out of the file")
	c.RunE = func(c *cobra.Command, args []string) error {
		file, name := args[0], args[1]
		if err := auth.CheckName(name); err != nil {
			return usage(err)
		}
		did, err := "deleted", error(nil)
		if remove {
			err = auth.DeleteUser(file, name)
		} else {
			did, err = setPassword(c, file, name)
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: user %s %s\n", file, name, did)
		return err
	}
	return c
}

// setPassword asks for a password and returns what it did with it.
func setPassword(c *cobra.Command, file, name string) (did string, err error) {
	password, err := askPassword(c, name, 2)
	if err != nil {
		return "", err
	}
	if password == "" {
		return "", errors.New("the password is empty")
	}
	replaced, err := auth.ChangeUser(file, name, auth.Change{Password: password})
	if replaced {
		return "has a new password", err
	}
	return "added", err
}

// askPassword reads a password from a terminal, where nobody sees it, or else
// the first line of the input. A terminal is asked so many times for the same.
// It ends with the command's context.
func askPassword(c *cobra.Command, name string, times int) (string, error) {
	in := c.InOrStdin()
	read := func() (string, error) { return firstLine(in) }
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fd := int(f.Fd())
		before, err := term.GetState(fd)
		if err != nil {
			return "", fmt.Errorf("terminal: %w", err)
		}
		// Interrupted, the terminal would go on hiding what is typed.
		defer func() { _ = term.Restore(fd, before) }()
		read = func() (string, error) {
			return askTerminal(c.ErrOrStderr(), name, times, func() ([]byte, error) { return term.ReadPassword(fd) })
		}
	}
	var password string
	done := make(chan error, 1)
	go func() {
		p, err := read()
		password = p
		done <- err
	}()
	select {
	case err := <-done:
		return password, err
	case <-c.Context().Done():
		return "", errors.New("interrupted")
	}
}

// askTerminal asks for a password, and for the same again if it is to be asked
// for twice.
func askTerminal(to io.Writer, name string, times int, read func() ([]byte, error)) (string, error) {
	var answers []string
	for _, question := range []string{"Password for " + name, "The same again"}[:times] {
		// Where the question cannot be read, the answer still can.
		_, _ = fmt.Fprint(to, question, ": ")
		b, err := read()
		_, _ = fmt.Fprintln(to)
		if err != nil {
			return "", fmt.Errorf("password: %w", err)
		}
		answers = append(answers, string(b))
	}
	if answers[0] != answers[times-1] {
		return "", errors.New("the two passwords are not the same")
	}
	return answers[0], nil
}

// firstLine is the input's first line without its end.
func firstLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, maxPassword+2)).ReadString('\n')
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("password: %w", err)
	}
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if len(line) > maxPassword {
		return "", fmt.Errorf("password: over %d bytes", maxPassword)
	}
	return line, nil
}
