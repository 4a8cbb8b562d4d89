package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"entrepot/conf"
	"entrepot/core/auth"
)

// maxKeyFile bounds what is read as a key, in bytes.
const maxKeyFile = 64 << 10

// minting is what `entrepot token` was told.
type minting struct {
	file, config, out string
	expires           time.Duration
	claims            []string
	grant             auth.Grant
}

func tokenCommand() *cobra.Command {
	var m minting
	c := &cobra.Command{
		Use:   "token KEY-FILE",
		Short: "Make a token (JWT) by which a client logs in, and keys to sign it by",
		Long: `Sign a JSON Web Token by the key in KEY-FILE, or - for the input, and print it. A
client that brings it in place of a password is the user that it names, in the
groups that it names, until it expires; the user needs no line in the users file.

KEY-FILE has a private key in PEM form (RSA, ECDSA P-256, P-384 or P-521, Ed25519),
or a secret of 32 bytes or more. The broker has the other half in auth.token.keys
of its settings: the public key, or the same secret. 'entrepot token key' makes
both.

With --config the token has the issuer, the audience and the names of claims that
those settings ask for, and is printed only if a broker with them takes it now.
Without, the claims are sub, groups and exp, as brokers have it by default.

Whoever has the token is that user: hand it on by a file or a pipe. A broker takes
back none, but for a key that is taken out of its settings; let them be short-lived.`,
		Example: `  entrepot token key tokens > token.toml                      makes tokens.key, tokens.pem and settings
  entrepot serve --config token.toml
  entrepot token tokens.key --user ann --groups ops --out ann.jwt
  entrepot pub mqtt://127.0.0.1/plant/7/temp 21.5 --token ann.jwt
  entrepot token tokens.key --config token.toml --user ann --expires 5m
  entrepot token tokens.key --user gate --audience plant-7 --claim 'site={"id":7}'
  entrepot token check --config token.toml ann.jwt`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&m.grant.User, "user", "", "`NAME` of the user that the token is for")
	f.StringSliceVar(&m.grant.Groups, "groups", nil, "`LIST` of groups that the user is in, for the rules: ops,night")
	f.StringVarP(&m.out, "out", "o", "", "write the token to `FILE`, which only its owner may read, and do not print it")
	f.DurationVar(&m.expires, "expires", time.Hour, "the token is good for `TIME`; 0: for ever, if the broker takes such")
	f.StringVarP(&m.config, "config", "c", "", "settings `FILE` of the broker, whose [auth.token] counts")
	f.StringVar(&m.grant.Issuer, "issuer", "", "who made it: claim iss is `TEXT`")
	f.StringSliceVar(&m.grant.Audience, "audience", nil, "for whom it is: claim aud is `LIST`")
	f.StringArrayVar(&m.claims, "claim", nil, "another claim `NAME=VALUE`; VALUE is JSON, or else a text (repeatable)")
	f.StringVar(&m.grant.Algorithm, "alg", "", "sign by `ALG` rather than the usual one of the key: HS384, PS256 …")
	f.StringVar(&m.grant.KeyID, "kid", "", "`NAME` of the key for a broker that has several: its file there without the ending\n"+
		"(default that of KEY-FILE, or found by --config)")
	c.RunE = func(c *cobra.Command, args []string) error {
		m.file = args[0]
		return m.run(c)
	}
	c.AddCommand(tokenKeyCommand(), tokenCheckCommand())
	return c
}

func (m *minting) run(c *cobra.Command) error {
	if err := m.check(); err != nil {
		return usage(err)
	}
	cfg, err := m.settings()
	if err != nil {
		return err
	}
	text, err := readSecret(c, m.file)
	if err != nil {
		return err
	}
	key, err := auth.ParseSigner(text)
	if err != nil {
		return fmt.Errorf("key %s: %w", m.file, err)
	}
	if err := m.complete(c, cfg, key); err != nil {
		return err
	}
	token, err := cfg.Mint(key, m.grant)
	if err != nil {
		return err
	}
	if m.config != "" {
		if _, err := cfg.Check(token); err != nil {
			return fmt.Errorf("a broker with %s would not take the token: %w", m.config, err)
		}
	}
	if m.out != "" {
		return replaceText(m.out, token+"\n")
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), token)
	return err
}

// replaceText puts a file that only its owner may read in the place of whatever is
// there. Whoever reads meanwhile sees the one or the other.
func replaceText(file, text string) error {
	if i, err := os.Lstat(file); err == nil && !i.Mode().IsRegular() {
		return fmt.Errorf("token: %s is not a regular file", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-") // with mode 0600
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error that counts is the other
		return fmt.Errorf("token: %w", err)
	}
	return nil
}

// check looks at what was asked for.
func (m *minting) check() error {
	if m.grant.User == "" {
		return errors.New("whose token? --user is missing")
	}
	if m.expires < 0 {
		return errors.New("--expires: not negative")
	}
	for _, group := range m.grant.Groups {
		if err := auth.CheckGroup(group); err != nil {
			return fmt.Errorf("--groups: %w", err)
		}
	}
	m.grant.Others = map[string]any{}
	for _, text := range m.claims {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := m.grant.Others[name]; !ok || name == "" || twice {
			return fmt.Errorf("--claim %q: NAME=VALUE, each name once", text)
		}
		m.grant.Others[name] = claimOf(value)
	}
	return auth.CheckName(m.grant.User)
}

// claimOf is a claim's value: JSON as it stands, so that no figure of a number is
// lost, or a text.
func claimOf(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// settings are what the broker looks at in tokens.
func (m *minting) settings() (auth.TokenConfig, error) {
	if m.config == "" {
		return conf.DefaultConfig().Auth.Token, nil
	}
	cfg, err := load(m.config, nil)
	return cfg.Auth.Token, err
}

// complete fills in what no flag says.
func (m *minting) complete(c *cobra.Command, cfg auth.TokenConfig, key *auth.Signer) (err error) {
	g := &m.grant
	if m.expires > 0 { // exp is whole seconds, and none too few
		g.Expires = time.Now().Add(m.expires + time.Second - time.Nanosecond)
	}
	if g.Issuer == "" {
		g.Issuer = cfg.Issuer
	}
	if len(g.Audience) == 0 && cfg.Audience != "" {
		g.Audience = []string{cfg.Audience}
	}
	switch {
	case c.Flags().Changed("kid"):
	case m.config != "":
		if g.KeyID, err = cfg.KeyID(key); err != nil {
			return fmt.Errorf("%s: %w", m.config, err)
		}
	case m.file != "-":
		g.KeyID = strings.TrimSuffix(filepath.Base(m.file), filepath.Ext(m.file))
	}
	return nil
}

// readSecret reads a file that holds a secret, or the input for "-".
func readSecret(c *cobra.Command, path string) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		defer f.Close()
		return readBounded(f)
	}
	var text []byte
	err := waiting(c.Context(), func() (err error) {
		text, err = readBounded(c.InOrStdin())
		return err
	})
	return text, err
}

func readBounded(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxKeyFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("key: %w", err)
	case len(text) > maxKeyFile:
		return nil, fmt.Errorf("key: over %d bytes", maxKeyFile)
	}
	return text, nil
}

// waiting does what may wait for an input that says nothing; it ends with ctx.
func waiting(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}

func tokenCheckCommand() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Say whom a token makes a client, or why it is refused",
		Long: `Look at the token in FILE, or - for the input, as a broker with the settings of
--config does when a client logs in with it, and say who that is, in which groups,
until when, or why it is refused. Clients are not told why; here it is.`,
		Example: `  entrepot token check --config entrepot.toml ann.jwt`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := load(config, nil)
			if err != nil {
				return err
			}
			text, err := readSecret(c, args[0])
			if err != nil {
				return err
			}
			who, err := cfg.Auth.Token.Check(strings.TrimSpace(string(text)))
			if err != nil {
				return err
			}
			until := "for ever"
			if !who.Until.IsZero() {
				until = "until " + who.Until.Format(time.RFC3339)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "user %s, groups %s, %s\n", who.User, strings.Join(who.Groups, ","), until)
			return err
		},
	}
	c.Flags().StringVarP(&config, "config", "c", "", "settings `FILE` of the broker")
	return c
}
