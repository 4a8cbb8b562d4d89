package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
)

// Trust is what a client believes and shows in TLS: files, empty ones for none.
type Trust struct {
	// CAs are those that may have signed the broker's certificate; without, those
	// that the system trusts.
	CAs string
	// Cert and Key are the client's own certificate.
	Cert, Key string
}

// Config reads the files, for a broker at HOST:PORT; protocol is what ALPN says.
func (t Trust) Config(address, protocol string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c := &tls.Config{ServerName: host, NextProtos: []string{protocol}}
	if t.CAs != "" {
		text, err := os.ReadFile(t.CAs)
		if err != nil {
			return nil, fmt.Errorf("--cafile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cafile: no certificate in %s", t.CAs)
		}
	}
	if t.Cert != "" {
		own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// Handshake speaks TLS over a connection, which it closes when that fails.
func Handshake(ctx context.Context, nc net.Conn, c *tls.Config) (net.Conn, error) {
	t := tls.Client(nc, c)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = nc.Close() // the error that counts is the other
		return nil, fmt.Errorf("TLS: %w", explained(ctx, err))
	}
	return t, nil
}

// explained puts a sentence before the errors that people meet.
func explained(ctx context.Context, err error) error {
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &unknown):
		return fmt.Errorf("nobody who is trusted signed the broker's certificate; --cafile names the CA that did (%w)", err)
	case errors.As(err, &record):
		return fmt.Errorf("the broker does not speak TLS there (%w)", err)
	}
	return err
}
