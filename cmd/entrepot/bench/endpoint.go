package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"entrepot/cmd/entrepot/internal/client"
)

// Protocols that the tool speaks.
const (
	protocolMQTT  = "mqtt"
	protocolSTOMP = "stomp"
	protocolAMQP  = "amqp"
	protocolCOAP  = "coap"
)

const dialTime = 10 * time.Second

// endpoint is one parsed broker URL.
type endpoint struct {
	protocol string
	address  string // host:port
	user     string
	password string
	login    bool // the URL names a user
	vhost    string
	path     string // of a CoAP server's resources
	secure   bool   // over TLS, or DTLS
	tls      *tls.Config
	psk      *sharedKey
}

// schemes are the beginnings of URLs, with the port where none is named.
func schemes() map[string]endpoint {
	return map[string]endpoint{
		"mqtt": {protocol: protocolMQTT, address: "1883"}, "mqtts": {protocol: protocolMQTT, address: "8883", secure: true},
		"stomp": {protocol: protocolSTOMP, address: "61613"}, "stomps": {protocol: protocolSTOMP, address: "61614", secure: true},
		"amqp": {protocol: protocolAMQP, address: "5672"}, "amqps": {protocol: protocolAMQP, address: "5671", secure: true},
		"coap": {protocol: protocolCOAP, address: "5683"}, "coaps": {protocol: protocolCOAP, address: "5684", secure: true},
	}
}

// parseEndpoint reads mqtt://[user[:password]@]host[:port] or the same with
// stomp or amqp, whose path names the virtual host, and coap://host[:port]/path;
// with an s behind it, each is over TLS, and coaps over DTLS.
func parseEndpoint(text string) (endpoint, error) {
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("broker address: %w", err)
	}
	e, known := schemes()[u.Scheme]
	port := e.address
	if !known || u.Hostname() == "" {
		return endpoint{}, fmt.Errorf("broker address %q: not mqtt://HOST[:PORT], stomp://HOST[:PORT], amqp://HOST[:PORT] or coap://HOST[:PORT]/PATH (mqtts, stomps, amqps, coaps)", u.Redacted())
	}
	if p := u.Port(); p != "" {
		port = p
	}
	e.address, e.vhost = net.JoinHostPort(u.Hostname(), port), "/"
	if u.User != nil {
		e.login, e.user = true, u.User.Username()
		e.password, _ = u.User.Password()
	}
	if e.protocol == protocolCOAP {
		e.path = u.Path
	} else if p := strings.TrimPrefix(u.Path, "/"); p != "" {
		e.vhost = p
	}
	if strings.ContainsAny(e.user+e.password+e.vhost, "\r\n\x00") {
		return endpoint{}, fmt.Errorf("broker address %q: a line break in user, password or path", u.Redacted())
	}
	return e, nil
}

// speaks gives the dialect for this end.
func (e endpoint) speaks(o *Options) dialect {
	switch e.protocol {
	case protocolSTOMP:
		return newStomp(e, o)
	case protocolAMQP:
		return newAmqp(e, o)
	}
	return newMqtt(e, o)
}

// loopback tells whether other 127.0.0.x addresses can serve as a source.
func (e endpoint) loopback() bool {
	host, _, err := net.SplitHostPort(e.address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.To4() != nil && ip.IsLoopback()
}

// dial opens a connection with a read buffer of the given size. Source 0 is
// any address, source n is 127.0.0.n.
func (e endpoint) dial(ctx context.Context, source, buffer int) (*link, error) {
	d := net.Dialer{Timeout: dialTime, KeepAlive: -1}
	if source > 0 {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(source))}
	}
	conn, err := d.DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w", e.address, err)
	}
	if e.tls != nil {
		ctx, cancel := context.WithTimeoutCause(ctx, dialTime, client.ErrTimeout)
		defer cancel()
		if conn, err = client.Handshake(ctx, conn, e.tls); err != nil {
			return nil, fmt.Errorf("broker %s: %w", e.address, err)
		}
		return &link{conn: conn, in: make([]byte, buffer)}, nil
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("broker %s: %w", e.address, err)
	}
	return &link{conn: conn, raw: raw, in: make([]byte, buffer)}, nil
}

// clientID is unique within a run and fits the 23 characters that MQTT 3.1.1
// promises ([MQTT-3.1.3-5]).
func clientID(run uint32, role string, n int) string {
	return "bench" + strconv.FormatUint(uint64(run), 36) + role + strconv.Itoa(n)
}

// open dials and opens a session. What else is to be agreed on has until the
// deadline that it leaves set.
func (e endpoint) open(ctx context.Context, d dialect, id string, source, buffer int) (*link, error) {
	l, err := e.dial(ctx, source, buffer)
	if err != nil {
		return nil, err
	}
	l.conn.SetDeadline(time.Now().Add(dialTime))
	if err := d.greet(l, id); err != nil {
		l.conn.Close()
		return nil, err
	}
	return l, nil
}
