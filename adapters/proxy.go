package adapters

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ProxyConfig says who may tell, by a PROXY header, for whom it connects.
type ProxyConfig struct {
	// Networks are the proxies' own addresses: networks ("10.0.0.0/8"), single
	// addresses, and "unix" for all who connect over a unix socket. Only listeners
	// that ask for the header read it, and close the connections of all others.
	Networks []string `toml:"networks"`
}

// DefaultProxyConfig is what runs when nothing is set: no proxies.
func DefaultProxyConfig() ProxyConfig { return ProxyConfig{Networks: []string{}} }

// Validate returns an error for what is no network.
func (c ProxyConfig) Validate() error {
	_, err := c.proxies()
	return err
}

// proxies are the networks of a ProxyConfig.
type proxies struct {
	networks []netip.Prefix
	unix     bool
}

func (c ProxyConfig) proxies() (proxies, error) {
	var p proxies
	for _, text := range c.Networks {
		if text == string(OverUnix) {
			p.unix = true
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			var one netip.Addr
			if one, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(one.Unmap(), one.Unmap().BitLen())
			}
		}
		if err != nil {
			return p, fmt.Errorf(`networks: %q is no network such as "10.0.0.0/8", no address, and not "unix"`, text)
		}
		p.networks = append(p.networks, network)
	}
	return p, nil
}

// trust tells whether a connection comes from a proxy.
func (p proxies) trust(from net.Addr) bool {
	if from.Network() == "unix" {
		return p.unix
	}
	peer := addrOf(from)
	for _, n := range p.networks {
		if n.Contains(peer) {
			return true
		}
	}
	return false
}

// addrOf is a network address without the port; not valid where there is none.
func addrOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap()
	case proxied:
		return a.client.Addr()
	}
	return netip.Addr{}
}

// proxied is the remote address of who comes through a proxy. client is not valid
// for the proxy itself, and for clients that are near it (unix sockets, loopback)
// and so nobody's that could be told from others: such addresses must not be taken
// for this machine's.
type proxied struct {
	client netip.AddrPort
	proxy  string
}

// Network implements net.Addr.
func (p proxied) Network() string { return "proxy" }

// String is the client's address, or the proxy's marked as such.
func (p proxied) String() string {
	if p.client.IsValid() {
		return p.client.String()
	}
	return "proxy@" + p.proxy
}

// Bounds of a header. Version 1 has at most 107 bytes with its line end.
const (
	proxyLine   = 107
	proxyHead   = 16 // of version 2, before what it says the length of
	proxyLength = 16 << 10
)

const (
	proxyText   = "PROXY "
	proxyBinary = "\r\n\r\n\x00\r\nQUIT\n"
)

// Errors of headers.
var (
	errNoProxyHeader  = errors.New("PROXY header: none")
	errBadProxyHeader = errors.New("PROXY header: malformed")
	errNoProxy        = errors.New("PROXY header: not from one of proxy.networks")
)

func badProxyHeader(what string) error { return fmt.Errorf("%w: %s", errBadProxyHeader, what) }

// readProxyHeader takes a header of the PROXY protocol, version 1 or 2, off r, and
// not a byte more. The client is not valid when the header says that it is the
// proxy itself, or has no network address.
func readProxyHeader(r io.Reader) (client netip.AddrPort, err error) {
	head := make([]byte, proxyHead, proxyLine)
	for have := 0; have < len(proxyText); { // who sends something else is not waited for
		n, err := r.Read(head[have:len(proxyText)])
		have += n
		seen := string(head[:have])
		switch {
		case !strings.HasPrefix(proxyText, seen) && !strings.HasPrefix(proxyBinary, seen):
			return client, errNoProxyHeader
		case err != nil && have < len(proxyText):
			return client, fmt.Errorf("PROXY header: %w", err)
		}
	}
	if string(head[:len(proxyText)]) == proxyText {
		return readProxyLine(r, head[:len(proxyText)])
	}
	if _, err := io.ReadFull(r, head[len(proxyText):]); err != nil {
		return client, fmt.Errorf("PROXY header: %w", err)
	}
	if string(head[:len(proxyBinary)]) != proxyBinary {
		return client, errNoProxyHeader
	}
	length := int(binary.BigEndian.Uint16(head[proxyHead-2:]))
	if length > proxyLength {
		return client, badProxyHeader("too long")
	}
	whole := append(head, make([]byte, length)...)
	if _, err := io.ReadFull(r, whole[proxyHead:]); err != nil {
		return client, fmt.Errorf("PROXY header: %w", err)
	}
	return parseProxyBinary(whole)
}

// readProxyLine reads byte by byte, as what follows the line is the client's.
func readProxyLine(r io.Reader, line []byte) (netip.AddrPort, error) {
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == proxyLine {
			return netip.AddrPort{}, badProxyHeader("no line end")
		}
		line = line[:len(line)+1]
		if _, err := io.ReadFull(r, line[len(line)-1:]); err != nil {
			return netip.AddrPort{}, fmt.Errorf("PROXY header: %w", err)
		}
	}
	return parseProxyLine(string(line[len(proxyText) : len(line)-2]))
}

// parseProxyLine reads version 1 behind "PROXY ".
func parseProxyLine(line string) (client netip.AddrPort, err error) {
	if line == "UNKNOWN" || strings.HasPrefix(line, "UNKNOWN ") {
		return client, nil
	}
	f := strings.Split(line, " ")
	if len(f) != 5 || f[0] != "TCP4" && f[0] != "TCP6" {
		return client, badProxyHeader("neither TCP4, TCP6 nor UNKNOWN with its fields")
	}
	source, ok1 := parseProxyAddr(f[0], f[1], f[3])
	_, ok2 := parseProxyAddr(f[0], f[2], f[4])
	if !ok1 || !ok2 {
		return client, badProxyHeader("an address or a port")
	}
	return source, nil
}

func parseProxyAddr(family, host, port string) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(host)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || strconv.FormatUint(n, 10) != port || a.Zone() != "" || a.Is4() != (family == "TCP4") {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), true
}

// Commands, families and a field of version 2.
const (
	proxyLocal  = 0x20
	proxyProxy  = 0x21
	proxyUnspec = 0x00
	proxyTCP4   = 0x11
	proxyTCP6   = 0x21
	proxyUnix   = 0x31
	proxyCRC    = 0x03
)

// parseProxyBinary reads version 2, the whole of it.
func parseProxyBinary(b []byte) (client netip.AddrPort, err error) {
	command, family, rest := b[12], b[13], b[proxyHead:]
	switch {
	case command == proxyLocal, command == proxyProxy && family == proxyUnspec:
		return client, nil // the rest is of no interest
	case command != proxyProxy:
		return client, badProxyHeader("neither LOCAL nor PROXY of version 2")
	}
	size := 0
	switch family {
	case proxyTCP4:
		size = 4 + 4 + 2 + 2
	case proxyTCP6:
		size = 16 + 16 + 2 + 2
	case proxyUnix:
		size = 108 + 108
	default:
		return client, badProxyHeader("another family than TCP and unix sockets")
	}
	if len(rest) < size {
		return client, badProxyHeader("shorter than its addresses")
	}
	if err := checkProxyFields(b, proxyHead+size); err != nil {
		return client, err
	}
	switch family {
	case proxyTCP4:
		client = netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest)), binary.BigEndian.Uint16(rest[8:]))
	case proxyTCP6:
		client = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest)).Unmap(), binary.BigEndian.Uint16(rest[32:]))
	}
	return client, nil
}

// checkProxyFields looks at the fields of type, length and value from at on: they
// fill the header exactly, and a checksum among them is that of the header.
func checkProxyFields(b []byte, at int) error {
	const head = 3
	for at < len(b) {
		if len(b)-at < head {
			return badProxyHeader("a field is cut off")
		}
		kind, end := b[at], at+head+int(binary.BigEndian.Uint16(b[at+1:]))
		if end > len(b) {
			return badProxyHeader("a field is longer than the header")
		}
		if kind == proxyCRC && !proxySum(b, at+head, end) {
			return badProxyHeader("the checksum")
		}
		at = end
	}
	return nil
}

// proxySum checks the CRC32c that stands from at to end: of the header, with zeros
// in that place.
func proxySum(b []byte, at, end int) bool {
	if end-at != crc32.Size {
		return false
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:at])
	sum = crc32.Update(sum, table, make([]byte, crc32.Size))
	return crc32.Update(sum, table, b[end:]) == binary.BigEndian.Uint32(b[at:])
}

// remoteOf is what a connection from a proxy says of its peer.
func remoteOf(proxy net.Addr, client netip.AddrPort) proxied {
	p := proxied{proxy: proxy.String()}
	if a := client.Addr(); !client.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() {
		if client.IsValid() {
			p.proxy = client.String()
		}
		return p
	}
	p.client = client
	return p
}
