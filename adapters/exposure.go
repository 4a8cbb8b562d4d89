package adapters

import (
	"errors"
	"fmt"
)

// ListenConfig is one protocol's listen key.
type ListenConfig struct {
	Section string
	// Packets: an address without a scheme is UDP's.
	Packets bool
	// Keys: DTLS clients share keys with the broker, and need no certificate of it.
	Keys   bool
	Listen []string
}

// ListenConfigs are the listen keys of all protocols.
type ListenConfigs []ListenConfig

func (l ListenConfig) bare() Transport {
	if l.Packets {
		return OverUDP
	}
	return OverTCP
}

// Validate looks at each address: that it can be read, that none is named twice
// and not all are closed, and that no other machine reaches one which is not
// encrypted, unless its own text says so, or where nobody has to prove who they
// are. asksWho tells that there are users.
func (all ListenConfigs) Validate(c TLSConfig, proxies ProxyConfig, asksWho bool) error {
	var errs []error
	owners := map[string]string{}
	count := 0
	for _, l := range all {
		addresses, err := ParseAddresses(l.Listen, l.bare())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: listen: %w", l.Section, err))
		}
		for _, a := range addresses {
			count++
			if a.Proxy && len(proxies.Networks) == 0 {
				errs = append(errs, fmt.Errorf("%s: listen: %q is for proxies, and proxy.networks does not say which are trusted", l.Section, a.Name))
			}
			for _, err := range a.check(c, l.Keys && a.Transport == OverDTLS, asksWho) {
				errs = append(errs, fmt.Errorf("%s: listen: %q %w", l.Section, a.Name, err))
			}
			if other, taken := owners[a.Socket()]; taken && a.Socket() != "" {
				errs = append(errs, fmt.Errorf("%s: listen: %s is named by %s already", l.Section, a.Socket(), other))
			}
			owners[a.Socket()] = l.Section
		}
	}
	if len(errs) == 0 && count == 0 {
		errs = append(errs, errors.New("listen: every protocol is off"))
	}
	return errors.Join(errs...)
}

// check looks at what an address needs of the rest of the settings. Its errors go
// on after the address.
func (a Address) check(c TLSConfig, keys, asksWho bool) (errs []error) {
	auth := a.ClientAuth
	if auth == "" {
		auth = c.ClientAuth
	}
	certified := a.Transport.Encrypted() && auth == AuthRequire || keysOnly(c, keys)
	if a.Transport.Encrypted() && len(c.Certs) == 0 && !keys {
		errs = append(errs, a.uncertified())
	}
	if a.Transport.Encrypted() && auth != AuthOff && len(c.ClientCAs) == 0 {
		errs = append(errs, errors.New("asks for clients' certificates: name the CAs that they come from as tls.client_cas"))
	}
	if a.Local() {
		return errs
	}
	if !a.Transport.Encrypted() && !a.Plaintext {
		errs = append(errs, a.tooOpen())
	}
	if !asksWho && !certified {
		errs = append(errs, errors.New("lets everybody in who reaches it, as there are no users: make a file of them with "+
			"'entrepot passwd' and name it as auth.users, or ask for certificates with tls: and ?client_auth=require"))
	}
	return errs
}

// keysOnly tells that nobody comes in who has no key.
func keysOnly(c TLSConfig, keys bool) bool { return keys && len(c.Certs) == 0 }

// uncertified is the error for an address that cannot prove what it is.
func (a Address) uncertified() error {
	also := ""
	if a.Transport == OverDTLS {
		also = ", or users with keys ('entrepot passwd --psk') as auth.users, or a file of keys as coap.psk_file"
	}
	return fmt.Errorf("needs a certificate: name files as tls.certs and tls.keys%s; 'entrepot certs' makes some for trying out", also)
}

// tooOpen is the error for an address where others can read what clients send.
func (a Address) tooOpen() error {
	scheme := OverTLS
	if a.Transport.Packets() {
		scheme = OverDTLS
	}
	if a.Proxy {
		return errors.New("is behind a proxy: add &plaintext=1 to it if all the way to the proxy's clients is encrypted or private")
	}
	return fmt.Errorf("can be reached from other machines, and is not encrypted: write \"%s:%s\", or add ?plaintext=1 to it "+
		"if everybody on the way may read passwords and messages", scheme, a.At)
}
