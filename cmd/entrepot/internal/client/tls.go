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

// secure shakes hands over a connection, which it closes when that fails.
func secure(ctx context.Context, nc net.Conn, u URL, o Options) (net.Conn, error) {
	c, err := tlsConfig(u, o)
	if err != nil {
		_ = nc.Close() // the error that counts is the other
		return nil, err
	}
	t := tls.Client(nc, c)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = nc.Close() // the same
		return nil, fmt.Errorf("TLS: %w", explained(ctx, err))
	}
	return t, nil
}

func tlsConfig(u URL, o Options) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(u.Address)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c := &tls.Config{ServerName: host, NextProtos: []string{u.Protocol}}
	if o.CAs != "" {
		text, err := os.ReadFile(o.CAs)
		if err != nil {
			return nil, fmt.Errorf("--cafile: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--cafile: no certificate in %s", o.CAs)
		}
	}
	if o.Cert != "" {
		own, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert, --key: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
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
