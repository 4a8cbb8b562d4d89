package adapters

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Transport is what carries a listener's clients.
type Transport string

// The transports; each is the scheme of an address, too. The one that a
// protocol has by itself need not be written.
const (
	OverTCP  Transport = "tcp"
	OverTLS  Transport = "tls"
	OverUDP  Transport = "udp"
	OverDTLS Transport = "dtls"
	OverUnix Transport = "unix"
)

// Packets tells whether it carries datagrams and not a stream.
func (t Transport) Packets() bool { return t == OverUDP || t == OverDTLS }

// Encrypted tells that nobody on the way can read what it carries.
func (t Transport) Encrypted() bool { return t == OverTLS || t == OverDTLS }

// Closed is the address that closes a protocol.
const Closed = "off"

// maxSocketPath is what every system can hold as a unix socket's name.
const maxSocketPath = 103

// Address says where a listener is and what it asks of its clients.
type Address struct {
	// Name is the listener's, for logs and rights: the option name, or else the
	// text that the address was read from, without its options.
	Name      string
	Transport Transport
	// At is HOST:PORT, or the path of a unix socket.
	At string
	// ClientAuth goes before TLSConfig.ClientAuth; "" leaves it to that.
	ClientAuth ClientAuth
	// Proxy: every connection begins with a PROXY header.
	Proxy bool
	// Plaintext: the settings say that other machines may reach this address
	// although nothing is encrypted there.
	Plaintext bool
}

// ParseAddress reads [SCHEME:]HOST:PORT[?OPTIONS] or unix:/PATH[?OPTIONS], where
// port 0 is any free one and an empty host is every address of the machine.
// bare is what an address without a scheme means: OverTCP, whose others are tls
// and unix; or OverUDP, whose others are tcp, tls and dtls. Options are parted by &:
// client_auth=off|request|require with TLS and DTLS, proxy=1 with streams,
// plaintext=1, name=NAME.
func ParseAddress(text string, bare Transport) (Address, error) {
	if text == Closed {
		return Address{}, errors.New(`"off" stands alone, beside no other address`)
	}
	where, options, _ := strings.Cut(text, "?")
	a := Address{Name: where, Transport: bare, At: where}
	if scheme, rest, ok := strings.Cut(where, ":"); ok {
		switch t := Transport(scheme); t {
		case OverTCP, OverTLS, OverUDP, OverDTLS, OverUnix:
			a.Transport, a.At = t, rest
		}
	}
	if err := a.checkTransport(bare); err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, err)
	}
	if err := a.parseAt(); err != nil {
		return Address{}, fmt.Errorf("%q%w", text, err)
	}
	if err := a.parseOptions(options); err != nil {
		return Address{}, fmt.Errorf("%q: %w", text, err)
	}
	return a, nil
}

// ParseAddresses reads a listen key: a list for ParseAddress. An empty list and
// "off" close the protocol.
func ParseAddresses(listen []string, bare Transport) ([]Address, error) {
	if len(listen) == 1 && listen[0] == Closed {
		return nil, nil
	}
	var all []Address
	for _, text := range listen {
		a, err := ParseAddress(text, bare)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

func (a *Address) checkTransport(bare Transport) error {
	switch {
	case bare == OverTCP && a.Transport.Packets():
		return fmt.Errorf("%s: is for CoAP", a.Transport)
	case bare == OverUDP && a.Transport == OverUnix:
		return errors.New("CoAP is not spoken on unix sockets")
	}
	return nil
}

// parseAt checks At and brings it to one spelling. Its errors go on after the
// address.
func (a *Address) parseAt() error {
	if a.Transport == OverUnix {
		switch {
		case !filepath.IsAbs(a.At):
			return errors.New(": the path of a unix socket begins with /")
		case len(a.At) > maxSocketPath:
			return fmt.Errorf(": the path of a unix socket has at most %d bytes", maxSocketPath)
		}
		a.At = filepath.Clean(a.At)
		return nil
	}
	host, port, err := net.SplitHostPort(a.At)
	if err != nil || strings.ContainsAny(host, "/ ") {
		return errors.New(` is neither HOST:PORT nor tls:HOST:PORT nor unix:/PATH nor "off"`)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return errors.New(": the port is a number from 0 to 65535")
	}
	a.At = net.JoinHostPort(host, strconv.FormatUint(n, 10))
	return nil
}

func (a *Address) parseOptions(text string) error {
	if text == "" {
		return nil
	}
	for option := range strings.SplitSeq(text, "&") {
		if err := a.parseOption(strings.Cut(option, "=")); err != nil {
			return err
		}
	}
	return nil
}

func (a *Address) parseOption(key, value string, _ bool) (err error) {
	switch key {
	case "client_auth":
		a.ClientAuth = ClientAuth(value)
		if err := a.ClientAuth.Validate(); err != nil {
			return err
		}
		if !a.Transport.Encrypted() {
			return errors.New("client_auth is for tls: and dtls: only")
		}
	case "proxy":
		if a.Proxy, err = onOff(key, value); err == nil && a.Proxy && a.Transport.Packets() {
			return errors.New("proxy is for streams only")
		}
	case "plaintext":
		a.Plaintext, err = onOff(key, value)
	case "name":
		if a.Name = value; value == "" {
			return errors.New("name= wants a name")
		}
	default:
		return fmt.Errorf("no option %q; there are client_auth, name, plaintext and proxy", key)
	}
	return err
}

// onOff reads an option that is on or off; its name alone is on.
func onOff(key, value string) (bool, error) {
	switch value {
	case "1", "true", "":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, fmt.Errorf("%s=%s: 0 or 1", key, value)
}

// Local tells that only this machine's own processes reach the address. A proxy
// brings others.
func (a Address) Local() bool {
	if a.Proxy {
		return false
	}
	if a.Transport == OverUnix {
		return true
	}
	host, _, _ := net.SplitHostPort(a.At)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Socket is what can be bound once only: "tcp HOST:PORT", "udp HOST:PORT" or
// "unix /PATH"; "" with port 0, which is another one each time.
func (a Address) Socket() string {
	switch {
	case strings.HasSuffix(a.At, ":0") && a.Transport != OverUnix:
		return ""
	case a.Transport == OverTLS:
		return string(OverTCP) + " " + a.At
	case a.Transport == OverDTLS:
		return string(OverUDP) + " " + a.At
	}
	return string(a.Transport) + " " + a.At
}
