package client

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Protocols, as they stand before "://".
const (
	MQTT  = "mqtt"
	STOMP = "stomp"
)

// URL is a broker and a place on it.
type URL struct {
	Protocol       string
	Address        string // host:port
	User, Password string
	// Topic is what follows the host: of an MQTT URL the topic or filter after
	// the first slash, of a STOMP URL the destination with its slash. Nothing
	// in it is decoded or cut off, so #, ?, + and % are themselves. Empty when
	// the URL names none.
	Topic string
	TLS   bool
}

// scheme is what stands before "://".
type scheme struct {
	protocol string
	tls      bool
	port     string // where the URL names none
}

func schemes() map[string]scheme {
	return map[string]scheme{
		"mqtt": {MQTT, false, "1883"}, "mqtts": {MQTT, true, "8883"},
		"stomp": {STOMP, false, "61613"}, "stomps": {STOMP, true, "61614"}, "stomp+ssl": {STOMP, true, "61614"},
	}
}

// ParseURL reads mqtt://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC] or
// stomp://[USER[:PASSWORD]@]HOST[:PORT][/DESTINATION]; mqtts and stomps are the same
// over TLS.
func ParseURL(text string) (URL, error) {
	name, rest, ok := strings.Cut(text, "://")
	kind := schemes()[name]
	protocol := kind.protocol
	if !ok || protocol == "" {
		return URL{}, fmt.Errorf("URL %q: begins neither with mqtt:// nor with stomp:// (mqtts:// and stomps:// with TLS)", text)
	}
	authority, topic, named := strings.Cut(rest, "/")
	if named && topic != "" && protocol == STOMP {
		topic = "/" + topic
	}
	u := URL{Protocol: protocol, TLS: kind.tls, Topic: topic}
	host := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		host = authority[at+1:]
		if err := u.credentials(authority[:at]); err != nil {
			return URL{}, fmt.Errorf("URL of %s: %w", host, err) // the text may hold a password
		}
	}
	var err error
	if u.Address, err = hostPort(host, kind.port); err != nil {
		return URL{}, fmt.Errorf("URL %s://%s: %w", name, host, err)
	}
	return u, nil
}

// credentials reads USER[:PASSWORD], in which other characters are %XX.
func (u *URL) credentials(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	u.User, err1 = url.PathUnescape(user)
	u.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("user and password: a % without two digits behind it")
	}
	return nil
}

func hostPort(text, port string) (string, error) {
	parsed, err := url.Parse("x://" + text)
	bare := strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[")
	if err != nil || parsed.Hostname() == "" || parsed.Host != text || bare {
		return "", errors.New("no HOST or HOST:PORT; an IPv6 address stands in [ ]")
	}
	if p := parsed.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(parsed.Hostname(), port), nil
}
