package adapters

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzParseAddress: any text is an address or refused, and an address that is
// written with its scheme is the same one.
func FuzzParseAddress(f *testing.F) {
	for _, text := range []string{"127.0.0.1:1883", "unix:/run/x", "tls:[::1]:8883?client_auth=require&name=a", ":0",
		"[::1%lo]:1", "tcp:", "unix:", "dtls:a:b?proxy=1", "off", "udp:224.0.1.187:5683"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, bare := range []Transport{OverTCP, OverUDP} {
			a, err := ParseAddress(text, bare)
			if err != nil {
				continue
			}
			written := string(a.Transport) + ":" + a.At
			again, err := ParseAddress(written, bare)
			if err != nil || again.Transport != a.Transport || again.At != a.At {
				t.Errorf("%q is %+v, %q is %+v, %v", text, a, written, again, err)
			}
		}
	})
}

// FuzzProxyHeader: a PROXY header is taken off whole, nothing behind it is, and
// what is none is refused for that.
// It shows fault 54.
func FuzzProxyHeader(f *testing.F) {
	for _, text := range []string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET", "PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", "PROXY UNKNOWN\r\n", "PROXY TCP4 1.2.3.4\r\n",
		proxyBinary + "\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02rest", proxyBinary + "\x20\x00\x00\x00rest",
		proxyBinary + "\x21\x11\x00\x10\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02\x04\x00\x01x", "\x10\x0d\x00\x04MQTT",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		client, err := readProxyHeader(r)
		used := len(b) - r.Len()
		if used > proxyHead+proxyLength {
			t.Errorf("%d bytes of %d are read", used, len(b))
		}
		if err != nil {
			if client.IsValid() {
				t.Errorf("%q: %v and %v", b, client, err)
			}
			return
		}
		again, err := readProxyHeader(bytes.NewReader(b[:used]))
		if err != nil || again != client {
			t.Errorf("%q: %v, by itself %v, %v", b[:used], client, again, err)
		}
		for cut := range used {
			if _, err := readProxyHeader(bytes.NewReader(b[:cut])); err == nil || errors.Is(err, errNoProxyHeader) && cut > len(proxyText) && b[0] == 'P' {
				t.Fatalf("%q: the first %d bytes: %v", b[:used], cut, err)
			}
		}
	})
}
