package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"entrepot/core/auth"
)

func tokenKeyCommand() *cobra.Command {
	var alg string
	c := &cobra.Command{
		Use:   "key NAME",
		Short: "Make a key that signs tokens, and the file that the broker checks them by",
		Long: `Make a private key NAME.key, which only its owner may read, and the public key
NAME.pem, and print the lines for the broker's settings. NAME may have a path
before it. No file is overwritten; to a private key that is there already the
public one is made.

Who signs keeps NAME.key; the broker needs NAME.pem alone, and cannot make tokens
with it. The exception is --alg HS256, HS384 or HS512: NAME.key is a secret then
that both sides have, and there is no NAME.pem.`,
		Example: `  entrepot token key tokens
  entrepot token key /etc/entrepot/tokens-2027 --alg ES256`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return makeTokenKey(c, args[0], alg) },
	}
	c.Flags().StringVar(&alg, "alg", "EdDSA", "make a key for `ALG`: "+strings.Join(auth.KeyAlgorithms(), ", "))
	return c
}

// tokenKey is the files of a key.
type tokenKey struct {
	private, public string // the second is none for a secret
}

func makeTokenKey(c *cobra.Command, name, alg string) error {
	if base := filepath.Base(name); strings.HasSuffix(name, string(filepath.Separator)) || strings.HasPrefix(base, ".") || base == string(filepath.Separator) {
		return usage(fmt.Errorf("%q: cannot be the name of a key's files", name))
	}
	if !slices.Contains(auth.KeyAlgorithms(), alg) {
		return usage(fmt.Errorf("--alg %q: one of %s", alg, strings.Join(auth.KeyAlgorithms(), ", ")))
	}
	k := tokenKey{name + ".key", name + ".pem"}
	key, fresh, err := k.sign(alg, c.Flags().Changed("alg"))
	if err != nil {
		return err
	}
	text, err := key.Public()
	if err != nil {
		return err
	}
	if text == nil {
		k.public = k.private
	} else {
		made, err := k.publish(text)
		if err != nil {
			return err
		}
		fresh = fresh || made
	}
	if fresh {
		c.PrintErrf("entrepot: made %s for the broker, and %s to sign by\n", k.public, k.private)
	} else {
		c.PrintErrln("entrepot: all of it is there already")
	}
	return k.tell(c)
}

// sign makes the key that signs, or reads the one that is there.
func (k tokenKey) sign(alg string, asked bool) (key *auth.Signer, fresh bool, err error) {
	text, err := os.ReadFile(k.private)
	switch {
	case err == nil:
		if key, err = auth.ParseSigner(text); err == nil && asked && !slices.Contains(key.Algorithms(), alg) {
			err = fmt.Errorf("it is there already, and signs by %s", strings.Join(key.Algorithms(), ", "))
		}
		if err != nil {
			err = fmt.Errorf("key %s: %w", k.private, err)
		}
		return key, false, err
	case !errors.Is(err, fs.ErrNotExist):
		return nil, false, fmt.Errorf("key: %w", err)
	}
	if _, err := os.Lstat(k.public); err == nil {
		return nil, false, fmt.Errorf("not overwritten: %s is there, and its %s is not", k.public, k.private)
	}
	key, text, err = auth.NewSigner(alg)
	if err == nil {
		err = createText(k.private, text, 0o600)
	}
	return key, true, err
}

// publish writes the public key, or sees that the one that is there is the same.
func (k tokenKey) publish(text []byte) (made bool, err error) {
	there, err := os.ReadFile(k.public)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, createText(k.public, text, 0o644)
	case err != nil:
		return false, fmt.Errorf("public key: %w", err)
	case !bytes.Equal(bytes.TrimSpace(there), bytes.TrimSpace(text)):
		return false, fmt.Errorf("not overwritten: %s is there, and is not the public key of %s", k.public, k.private)
	}
	return false, nil
}

func createText(file string, text []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("not overwritten: %w", err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// tell prints what to write where.
func (k tokenKey) tell(c *cobra.Command) error {
	path, err := filepath.Abs(k.public)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "# for the broker's settings\n[auth.token]\nkeys = [%q]\n", path)
	return err
}
