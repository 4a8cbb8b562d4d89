package conf

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// off is the address that closes a protocol.
const off = "off"

const unixPrefix = "unix:"

// maxSocketPath is what every system can hold as a unix socket's name.
const maxSocketPath = 103

// ParseAddresses reads a listen key and returns the addresses in one spelling
// each. An empty list and "off" close the protocol.
func ParseAddresses(listen []string) ([]string, error) {
	if len(listen) == 1 && listen[0] == off {
		return nil, nil
	}
	var all []string
	for _, text := range listen {
		a, err := ParseAddress(text)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// ParseAddress reads HOST:PORT, whose host must be this machine's own
// (localhost, 127.0.0.1, [::1]) and whose port may be 0 for any free one, or
// unix:PATH.
func ParseAddress(text string) (string, error) {
	if text == off {
		return "", errors.New(`"off" stands alone, beside no other address`)
	}
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		return parsePath(text, path)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf(`%q is neither HOST:PORT nor unix:/PATH nor "off"`, text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q: the port is a number from 0 to 65535", text)
	} else if !loopback(host) {
		return "", fmt.Errorf("%q can be reached from other machines, and this version has no TLS: "+
			"listen on 127.0.0.1, [::1], localhost or unix:/PATH", text)
	} else {
		return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
	}
}

func parsePath(text, path string) (string, error) {
	switch {
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("%q: the path of a unix socket begins with /", text)
	case len(path) > maxSocketPath:
		return "", fmt.Errorf("%q: the path of a unix socket has at most %d bytes", text, maxSocketPath)
	}
	return unixPrefix + filepath.Clean(path), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listeners are the addresses to open, protocol by protocol.
func (c Config) listeners() []listenKey {
	return []listenKey{{"mqtt", c.MQTT.Listen}, {"stomp", c.STOMP.Listen}, {"amqp", c.AMQP.Listen},
		{"coap", c.CoAP.Listen}, {"http", c.HTTP.Listen}}
}

type listenKey struct {
	section string
	listen  []string
}

// checkListeners looks at each address, and that none is named twice and not
// all are closed.
func (c Config) checkListeners() error {
	var errs []error
	owners := map[string]string{}
	for _, k := range c.listeners() {
		all, err := ParseAddresses(k.listen)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: listen: %w", k.section, err))
		}
		for _, a := range all {
			if k.section == "coap" { // UDP's ports are others
				a = "udp " + a
			}
			if other, taken := owners[a]; taken && !strings.HasSuffix(a, ":0") {
				errs = append(errs, fmt.Errorf("%s: listen: %s is named by %s already", k.section, a, other))
			}
			owners[a] = k.section
		}
	}
	if len(errs) == 0 && len(owners) == 0 {
		errs = append(errs, errors.New("listen: every protocol is off"))
	}
	return errors.Join(errs...)
}
