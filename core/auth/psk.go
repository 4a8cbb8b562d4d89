package auth

import (
	"encoding/hex"
	"fmt"
)

// Bounds on a key that a DTLS client shares with the broker, in bytes: a shorter
// one can be tried out by whoever recorded a handshake.
const (
	minPSK = 16
	maxPSK = 64
)

// ParsePSK reads a key for DTLS, 16 to 64 bytes in hex. Its errors show nothing of
// the key.
func ParsePSK(text string) ([]byte, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < minPSK || len(key) > maxPSK {
		return nil, fmt.Errorf("not %d to %d bytes in hex", minPSK, maxPSK)
	}
	return key, nil
}
