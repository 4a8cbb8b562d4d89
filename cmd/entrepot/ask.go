package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// maxPassword bounds what is read as a password, in bytes.
const maxPassword = 1024

// askPassword is askSecret for a user's password.
func askPassword(c *cobra.Command, name string, times int) (string, error) {
	return askSecret(c, "Password for "+name, times)
}

// askSecret reads a text from a terminal, where nobody sees it, or else the next
// line of the input. A terminal is asked so many times for the same. It ends with
// the command's context.
func askSecret(c *cobra.Command, question string, times int) (string, error) {
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
			return askTerminal(c.ErrOrStderr(), question, times, func() ([]byte, error) { return term.ReadPassword(fd) })
		}
	}
	var password string
	err := waiting(c.Context(), func() (err error) {
		password, err = read()
		return err
	})
	if err != nil {
		return "", err
	}
	return password, nil
}

// askTerminal asks for a secret, and for the same again if it is to be asked
// for twice.
func askTerminal(to io.Writer, what string, times int, read func() ([]byte, error)) (string, error) {
	var answers []string
	for _, question := range []string{what, "The same again"}[:times] {
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

// firstLine is the input's first line without its end. What follows it is left
// in the input.
func firstLine(in io.Reader) (string, error) {
	var line []byte
	for b := [1]byte{}; len(line) < maxPassword+2; line = append(line, b[0]) {
		if _, err := io.ReadFull(in, b[:]); err == io.EOF || err == nil && b[0] == '\n' {
			break
		} else if err != nil {
			return "", fmt.Errorf("password: %w", err)
		}
	}
	text := strings.TrimSuffix(string(line), "\r")
	if len(text) > maxPassword {
		return "", fmt.Errorf("password: over %d bytes", maxPassword)
	}
	return text, nil
}
