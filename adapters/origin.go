package adapters

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// origins are the web pages that may connect, beside the broker's own.
type origins struct {
	every  bool
	listed map[string]bool
}

var (
	errForeignPage = errors.New("pages of this origin may not connect")
	errNoOrigin    = errors.New("a page without an origin of its own may not connect")
)

func parseOrigins(list []string) (origins, error) {
	o := origins{listed: map[string]bool{}}
	for _, text := range list {
		if text == "*" {
			o.every = true
			continue
		}
		origin, err := parseOrigin(text)
		if err != nil {
			return o, fmt.Errorf("origins: %w", err)
		}
		o.listed[origin] = true
	}
	return o, nil
}

// check says why the page that a request comes from may not connect. Scheme,
// host and port must all be those of a listed origin or of the request.
func (o origins) check(r *http.Request) error {
	sent := r.Header.Values("Origin")
	if len(sent) == 0 {
		return nil // no browser
	}
	if len(sent) > 1 || sent[0] == "null" || sent[0] == "" {
		return errNoOrigin
	}
	origin, err := parseOrigin(sent[0])
	switch {
	case err != nil:
		return errNoOrigin
	case o.every || o.listed[origin] || origin == own(r):
		return nil
	}
	return errForeignPage
}

// SameOrigin tells whether a browser says that a request comes from a page that
// this very server gave out: the same scheme, host and port. What no browser
// sent says nothing of the kind.
func SameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "": // an old browser
	default:
		return false
	}
	sent := r.Header.Values("Origin")
	if len(sent) != 1 {
		return false
	}
	origin, err := parseOrigin(sent[0])
	return err == nil && origin == own(r)
}

// own is the origin of pages that this server itself gave out.
func own(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	origin, err := parseOrigin(scheme + "://" + r.Host)
	if err != nil {
		return "none"
	}
	return origin
}

// parseOrigin reads scheme://host or scheme://host:port and returns it in one
// spelling, with the port that the scheme means.
func parseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%q is no origin: %w", text, err)
	}
	rest := *u
	rest.Scheme, rest.Host = "", ""
	if u.Scheme == "" || u.Hostname() == "" || rest != (url.URL{}) {
		return "", fmt.Errorf(`%q is no origin such as "https://app.example" or "http://localhost:3000"`, text)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}
