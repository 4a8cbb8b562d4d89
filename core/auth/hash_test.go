package auth

import (
	"regexp"
	"strings"
	"testing"
)

func TestHash(t *testing.T) {
	one, two := mustHash(t, password), mustHash(t, password)
	form := regexp.MustCompile(`^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`)
	if !form.MatchString(one) || one == two {
		t.Errorf("%s, %s", one, two)
	}
	h, err := parseHash(one)
	if err != nil || !h.fits(password) || h.fits("wrong") {
		t.Errorf("%v", err)
	}
	if _, err := Hash(""); err == nil {
		t.Error("an empty password has a hash")
	}
}

func TestBadHashes(t *testing.T) {
	const salt, key = "$c29tZXNhbHQ", "$XEHIvTBlGB2MxYFUQvwy7JpF4iaj17AMfKuljYyPtlw"
	argon := func(costs string) string { return "$argon2id$v=19$" + costs + salt + key }
	good := argon("m=64,t=1,p=1")
	bc := "$2b$04$" + strings.Repeat("a", 53)
	for _, c := range []struct{ text, want string }{
		{good, ""},
		{bc, ""},
		{argon("m=262144,t=4,p=8"), ""},
		{"", "no hash behind the name"},
		{"secret", "no hash of a password"},
		{"*", "no hash of a password"},
		{" " + good, "no hash of a password"},
		{"$", "another kind"},
		{"$7$101$c2FsdA==$a2V5", "the salt has 8 to 64 bytes"},
		{"$2$04$" + strings.Repeat("a", 53), "another kind"},
		{"$2x$04$" + strings.Repeat("a", 53), "another kind"},
		{"$argon2i$v=19$m=64,t=1,p=1" + salt + key, "another kind"},
		{"$argon2id", "not $argon2id$v=19$"},
		{strings.Replace(good, "v=19", "v=16", 1), "not $argon2id$v=19$"},
		{good + "$", "not $argon2id$v=19$"},
		{good + "\r", "not base64"},
		{good + "=", "not base64"},
		{strings.Replace(good, "c29t", "c2-t", 1), "not base64"},
		{good[:len(good)-1] + "x", "not base64"}, // bits that mean nothing
		{argon("m=64,t=1"), "not m=KIB"},
		{argon("m=64,t=1,p=1,keyid=x"), "not m=KIB"},
		{argon("t=1,m=64,p=1"), "makes no sense"},
		{argon("m=64,t=0,p=1"), "makes no sense"},
		{argon("m=64,t=1,p=0"), "makes no sense"},
		{argon("m=7,t=1,p=1"), "makes no sense"},
		{argon("m=064,t=1,p=1"), "makes no sense"},
		{argon("m=+64,t=1,p=1"), "makes no sense"},
		{argon("m=-64,t=1,p=1"), "makes no sense"},
		{argon("m=99999999999,t=1,p=1"), "makes no sense"},
		{argon("m=262145,t=1,p=1"), "costs too much"},
		{argon("m=262144,t=5,p=1"), "costs too much"},
		{argon("m=64,t=4294967295,p=1"), "costs too much"},
		{argon("m=4096,t=1,p=9"), "costs too much"},
		{"$argon2id$v=19$m=64,t=1,p=1$c2FsdA" + key, "the salt has 8 to 64"},
		{"$argon2id$v=19$m=64,t=1,p=1" + salt + "$c2FsdA", "the key 16 to 64"},
		{"$argon2id$v=19$m=64,t=1,p=1" + salt + "$", "the key 16 to 64"},
		{bc[:59], "not $2b$COST$"},
		{bc + "a", "not $2b$COST$"},
		{bc[:59] + "\r", "not $2b$COST$"},
		{"$2b$03$" + strings.Repeat("a", 53), "not $2b$COST$"},
		{"$2b$xx$" + strings.Repeat("a", 53), "not $2b$COST$"},
		{"$2b$15$" + strings.Repeat("a", 53), "costs too much"},
	} {
		_, err := parseHash(c.text)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
		if err != nil && len(c.text) > 20 && strings.Contains(err.Error(), c.text[20:]) {
			t.Errorf("the hash is in %q", err)
		}
	}
}

// A users file may hold anything.
func FuzzParseHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$XEHIvTBlGB2MxYFUQvwy7JpF4iaj17AMfKuljYyPtlw")
	f.Add("$2b$04$" + strings.Repeat("a", 53))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parseHash(text)
		if (h == nil) == (err == nil) {
			t.Fatalf("%v, %v", h, err)
		}
		switch h := h.(type) {
		case argon:
			if h.String() != text {
				t.Errorf("read as %s", h)
			}
		case blowfish:
			if string(h) != text {
				t.Errorf("read as %s", h)
			}
		}
	})
}

// What other programs made of the same password: the reference implementation
// of argon2, and a system's crypt(3).
func TestHashesOfOthers(t *testing.T) {
	const argon = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	const crypt = "$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2"
	for text, password := range map[string]string{
		argon: "password", "$2b" + crypt: password, "$2y" + crypt: password, "$2a" + crypt: password,
	} {
		h, err := parseHash(text)
		if err != nil || !h.fits(password) || h.fits(password+"x") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
