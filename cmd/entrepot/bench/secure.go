package bench

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/pion/dtls/v3"

	"entrepot/cmd/entrepot/internal/client"
)

// sharedKey is what a client of DTLS shows in place of a certificate.
type sharedKey struct {
	identity string
	key      []byte
}

// secure reads the files for the ends that want TLS.
func (o *Options) secure(ends ...*endpoint) error {
	wanted := slices.ContainsFunc(ends, func(e *endpoint) bool { return e.secure })
	switch {
	case (o.Cert == "") != (o.Key == ""):
		return errors.New("--cert and --key: both or none")
	case !wanted && o.CAs+o.Cert+o.PSK != "":
		return errors.New("--cafile, --cert, --psk: for mqtts://, stomps://, amqps:// and coaps:// only")
	case o.PSK != "" && coapKinds[o.Kind] == nil:
		return errors.New("--psk: for coaps:// only")
	}
	var err error
	for _, e := range ends {
		if !e.secure {
			continue
		}
		if e.tls, err = (client.Trust{CAs: o.CAs, Cert: o.Cert, Key: o.Key}).Config(e.address, e.protocol); err != nil {
			return err
		}
		if o.PSK == "" {
			continue
		}
		if e.psk, err = readSharedKey(o.PSK); err != nil {
			return err
		}
	}
	return nil
}

// readSharedKey reads NAME:KEY, with the key in hex, as the broker's psk_file has
// it; its first line counts.
func readSharedKey(path string) (*sharedKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--psk: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	at := strings.LastIndexByte(line, ':')
	if at <= 0 {
		return nil, fmt.Errorf("--psk: %s: not NAME:KEY", path)
	}
	key, err := hex.DecodeString(strings.TrimSpace(line[at+1:]))
	if err != nil || len(key) == 0 {
		return nil, fmt.Errorf("--psk: %s: the key is not in hex", path)
	}
	return &sharedKey{line[:at], key}, nil
}

// secureDatagrams opens a session of DTLS.
func (e endpoint) secureDatagrams(ctx context.Context) (net.Conn, error) {
	at, err := net.ResolveUDPAddr("udp", e.address)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", e.address, err)
	}
	options := []dtls.ClientOption{dtls.WithServerName(e.tls.ServerName)}
	if e.tls.RootCAs != nil {
		options = append(options, dtls.WithRootCAs(e.tls.RootCAs))
	}
	if len(e.tls.Certificates) > 0 {
		options = append(options, dtls.WithCertificates(e.tls.Certificates...))
	}
	if e.psk != nil {
		options = append(options, dtls.WithPSK(func([]byte) ([]byte, error) { return e.psk.key, nil }), dtls.WithPSKIdentityHint([]byte(e.psk.identity)),
			dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8, dtls.TLS_PSK_WITH_AES_128_GCM_SHA256))
	}
	conn, err := dtls.DialWithOptions("udp", at, options...)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", e.address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the error that counts is the other
		return nil, fmt.Errorf("server %s: DTLS: %w", e.address, err)
	}
	return conn, nil
}
