package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"entrepot/adapters/admin"
)

// maxList bounds what is read of a list, in bytes, maxToken a token.
const (
	maxList  = 64 << 20
	maxToken = 64 << 10
)

// passwordVariable has the password of --user.
const passwordVariable = "ENTREPOT_PASSWORD"

// running is the broker that a command works on, and who asks.
type running struct {
	file, data, http        string
	url, user, token, trust string
}

// flags say which broker is meant.
func (b *running) flags(c *cobra.Command) {
	dataFlags(c, &b.file, &b.data)
	f := c.Flags()
	f.StringVar(&b.http, "http", "", "HTTP `ADDRESS` of a broker without a data directory: HOST:PORT or unix:/PATH")
	f.StringVar(&b.url, "url", "", "`URL` of a broker that has users: https://HOST:PORT")
	f.StringVar(&b.user, "user", "", "with --url: log in as the user `NAME`; the password is asked for, or in "+passwordVariable)
	f.StringVar(&b.token, "token", "", "with --url: log in with the token in `FILE`, or - for the input")
	f.StringVar(&b.trust, "cafile", "", "with --url: trust the CAs in `FILE` (PEM), and no others")
}

// link is a way to a broker.
type link struct {
	base      string // what goes before a path
	authorize func(*http.Request)
	transport *http.Transport
}

// find is the way to the broker that the flags mean.
func (b *running) find(c *cobra.Command) (link, error) {
	switch elsewhere := b.http != "" || c.Flags().Changed("data") || b.file != ""; {
	case b.url != "" && elsewhere:
		return link{}, usage(errors.New("--url, --http and --data or --config: one of them"))
	case b.user != "" && b.token != "":
		return link{}, usage(errors.New("--user and --token: one or the other"))
	case b.url != "":
		return b.remote(c)
	case b.user != "" || b.token != "" || b.trust != "":
		return link{}, usage(errors.New("--user, --token and --cafile are for --url"))
	}
	if b.http != "" {
		return control{HTTP: b.http}.link(), nil
	}
	dir, err := dataDir(c, b.file, b.data)
	if err != nil {
		return link{}, err
	}
	at, err := readControl(dir)
	return at.link(), err
}

// link is the way that a control file says.
func (c control) link() link {
	return link{"http://localhost", func(r *http.Request) {
		if c.Token != "" {
			r.Header.Set("Authorization", "Bearer "+c.Token)
		}
	}, c.transport()}
}

// remote is the way to a broker anywhere.
func (b *running) remote(c *cobra.Command) (link, error) {
	u, err := url.Parse(b.url)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return link{}, usage(errors.New("--url: not https://HOST:PORT (a name and password do not stand there, see --user)"))
	}
	if u.Scheme == "http" && !thisMachine(u.Hostname()) {
		return link{}, usage(errors.New("--url: what is sent by http:// can be read on the way: use https://"))
	}
	to := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if b.trust != "" {
		if to.TLSClientConfig.RootCAs, err = readCAs(b.trust); err != nil {
			return link{}, err
		}
	}
	authorize, err := b.proof(c)
	return link{u.Scheme + "://" + u.Host, authorize, to}, err
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func readCAs(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("CAs: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("CAs: no certificate in %s", path)
	}
	return pool, nil
}

// proof puts into requests who asks. Neither password nor token stands on the
// command line, where others on this machine could read it.
func (b *running) proof(c *cobra.Command) (func(*http.Request), error) {
	switch {
	case b.user != "":
		password := os.Getenv(passwordVariable)
		if password == "" {
			var err error
			if password, err = askPassword(c, b.user, 1); err != nil {
				return nil, err
			}
		}
		return func(r *http.Request) { r.SetBasicAuth(b.user, password) }, nil
	case b.token != "":
		token, err := readToken(b.token, c.InOrStdin())
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, err
	}
	return func(*http.Request) {}, nil
}

func readToken(path string, in io.Reader) (string, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("token: %w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// get asks for a list, post has something done.
func (b *running) get(c *cobra.Command, path string, query url.Values) (admin.Outcome, error) {
	return b.work(c, http.MethodGet, path+"?"+query.Encode(), nil)
}

func (b *running) post(c *cobra.Command, path string, w admin.Wish) (admin.Outcome, error) {
	body, err := json.Marshal(w)
	if err != nil {
		return admin.Outcome{}, fmt.Errorf("request: %w", err)
	}
	return b.work(c, http.MethodPost, path, body)
}

func (b *running) work(c *cobra.Command, method, path string, body []byte) (o admin.Outcome, err error) {
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Minute)
	defer cancel()
	at, err := b.find(c)
	if err == nil {
		err = at.ask(ctx, method, path, body, &o, &o.Error)
	}
	return o, err
}

// errNoAnswer is a broker that is not there, or went away.
var errNoAnswer = errors.New("the broker does not answer")

// ask reads the answer into it; its error is the broker's own word, if that
// says one there.
func (l link) ask(ctx context.Context, method, path string, body []byte, into any, failed *string) error {
	defer l.transport.CloseIdleConnections()
	resp, err := l.send(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	err = json.Unmarshal(text, into)
	switch {
	case err == nil && *failed != "":
		return errors.New(*failed)
	case err != nil || resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the broker answers %s: %.200s", resp.Status, bytes.TrimSpace(text))
	}
	return nil
}

// send sends a request. Whoever answers cannot pass it on to another.
func (l link) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	l.authorize(r)
	h := http.Client{Transport: l.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h.Do(r)
}
