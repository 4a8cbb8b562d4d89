package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds on keys for tokens.
const (
	maxKeyFile = 64 << 10
	maxKeys    = 64
	minSecret  = 32   // bytes: RFC 7518, 3.2
	minRSA     = 2048 // bits: RFC 7518, 3.3
)

// tokenKey is a key that tokens are signed with. Its kind says by which
// algorithms, whatever a token claims (RFC 8725, 3.1).
type tokenKey struct {
	id      string // the file's name, without what is behind the last dot
	methods []string
	key     any
	mark    mark
}

// readTokenKeys reads the files of keys; none is passed over.
func readTokenKeys(paths []string) ([]tokenKey, error) {
	if len(paths) > maxKeys {
		return nil, fmt.Errorf("%d keys for tokens: at most %d", len(paths), maxKeys)
	}
	var all []tokenKey
	for _, path := range paths {
		k, err := readTokenKey(path)
		if err != nil {
			return nil, fmt.Errorf("key for tokens: %w", err)
		}
		if slices.ContainsFunc(all, func(o tokenKey) bool { return o.id == k.id }) {
			return nil, fmt.Errorf("key for tokens %s: there is a key %q already", path, k.id)
		}
		all = append(all, k)
	}
	return all, nil
}

// readTokenKey reads one. Who has a secret of both sides can make tokens, so its
// file must not be readable by everybody.
func readTokenKey(path string) (tokenKey, error) {
	k := tokenKey{id: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	file, err := ReadSmallFile(path, maxKeyFile)
	if err != nil {
		return k, err
	}
	k.mark = markOf("token key", string(file.Text))
	k.key, k.methods, err = parseTokenKey(file.Text)
	if _, secret := k.key.([]byte); err == nil && secret {
		err = file.Private()
	}
	if err != nil {
		return k, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// parseTokenKey reads a public key or a certificate in PEM form, or else takes
// the bytes, without a line's end, as the secret of both sides. What looks like
// PEM is never a secret: whoever has a public key could sign with it.
func parseTokenKey(text []byte) (key any, methods []string, err error) {
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		secret := bytes.TrimRight(text, "\r\n")
		if len(secret) < minSecret {
			return nil, nil, fmt.Errorf("a secret of %d bytes: at least %d", len(secret), minSecret)
		}
		return secret, []string{"HS256", "HS384", "HS512"}, nil
	}
	block, rest := pem.Decode(bytes.TrimSpace(text))
	switch {
	case block == nil || len(bytes.TrimSpace(rest)) > 0:
		return nil, nil, errors.New("not one PEM block")
	case strings.Contains(block.Type, "PRIVATE"):
		return nil, nil, errors.New("a private key: the broker needs the public one")
	case block.Type == "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, err
		}
		key = c.PublicKey
	default:
		if key, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
			return nil, nil, fmt.Errorf("PEM block %q: %w", block.Type, err)
		}
	}
	methods, err = methodsOf(key)
	return key, methods, err
}

// methodsOf is what a public key may be used for.
func methodsOf(key any) ([]string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return nil, fmt.Errorf("an RSA key of %d bits: at least %d", k.N.BitLen(), minRSA)
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		switch k.Params().BitSize {
		case 256:
			return []string{"ES256"}, nil
		case 384:
			return []string{"ES384"}, nil
		case 521:
			return []string{"ES512"}, nil
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	}
	return nil, errors.New("a key of a kind that signs no tokens: RSA, ECDSA (P-256, P-384, P-521) and Ed25519 do")
}
