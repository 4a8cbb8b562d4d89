package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Signer signs tokens, as an issuer does: the broker has no use for one. It does
// not change.
type Signer struct {
	private any // crypto.Signer, or the secret
	public  any // what a broker verifies with
	methods []string
}

// KeyAlgorithms are those that NewSigner makes keys for, as RFC 7518, 3.1 and
// RFC 8037 name them.
func KeyAlgorithms() []string {
	return []string{"EdDSA", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "HS256", "HS384", "HS512"}
}

// newRSA is how long new RSA keys are, in bits.
const newRSA = 3072

// NewSigner makes a key for an algorithm, and the text of the file that ReadSigner
// reads: a secret in base64url for HS, else PEM (PKCS #8).
func NewSigner(alg string) (s *Signer, text []byte, err error) {
	var key crypto.Signer
	switch alg {
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		key, err = rsa.GenerateKey(rand.Reader, newRSA)
	case "HS256", "HS384", "HS512":
		secret := make([]byte, map[string]int{"HS256": 32, "HS384": 48, "HS512": 64}[alg])
		rand.Read(secret) // never fails
		text = append(base64.RawURLEncoding.AppendEncode(nil, secret), '\n')
	default:
		return nil, nil, fmt.Errorf("no algorithm %.40q: one of %s", alg, strings.Join(KeyAlgorithms(), ", "))
	}
	if err == nil && key != nil {
		var der []byte
		der, err = x509.MarshalPKCS8PrivateKey(key)
		text = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("key for %s: %w", alg, err)
	}
	s, err = ParseSigner(text)
	return s, text, err
}

// ParseSigner reads a private key in PEM form (PKCS #8, PKCS #1, SEC 1), or else
// takes the bytes, without a line's end, as a secret, by the same rules as the
// broker does. Errors do not show the text.
func ParseSigner(text []byte) (*Signer, error) {
	if !bytes.Contains(text, []byte("-----BEGIN")) {
		secret, methods, err := parseTokenKey(text)
		return &Signer{secret, secret, methods}, err
	}
	block, rest := pem.Decode(bytes.TrimSpace(text))
	if block != nil && block.Type == "EC PARAMETERS" { // openssl ecparam puts them before the key
		block, rest = pem.Decode(rest)
	}
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("not one PEM block")
	}
	key, err := parsePrivate(block)
	if err != nil {
		return nil, err
	}
	s := &Signer{private: key, public: key.Public()}
	s.methods, err = methodsOf(s.public)
	return s, err
}

func parsePrivate(block *pem.Block) (crypto.Signer, error) {
	var key any
	var err error
	switch encrypted := block.Headers["DEK-Info"] != ""; {
	case encrypted, block.Type == "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("the private key is encrypted; 'openssl pkey' decrypts it")
	case block.Type == "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case block.Type == "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case block.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case block.Type == "PUBLIC KEY", block.Type == "CERTIFICATE":
		return nil, errors.New("a public key, which the broker checks tokens by: it takes the private one to sign")
	default:
		return nil, fmt.Errorf("PEM block %.40q: not a private key", block.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("PEM block %q: %w", block.Type, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("a key of a kind that signs no tokens: RSA, ECDSA (P-256, P-384, P-521) and Ed25519 do")
	}
	return signer, nil
}

// Algorithms are those that the key signs by, the usual one first.
func (s *Signer) Algorithms() []string { return s.methods }

// Public is the file that a broker reads as one of TokenConfig.Keys; nil for a
// secret, which both sides have.
func (s *Signer) Public() ([]byte, error) {
	if _, secret := s.private.([]byte); secret {
		return nil, nil
	}
	der, err := x509.MarshalPKIXPublicKey(s.public)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// verifiedBy tells whether a key is the other half of this one.
func (s *Signer) verifiedBy(key any) bool {
	switch public := s.public.(type) {
	case []byte:
		secret, ok := key.([]byte)
		return ok && bytes.Equal(public, secret)
	case interface{ Equal(crypto.PublicKey) bool }:
		return public.Equal(key)
	}
	return false
}
