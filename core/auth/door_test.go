package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"
)

// doorOf opens the door of some settings with a users file.
func doorOf(t *testing.T, users string, change func(*Config)) *Door {
	t.Helper()
	c := DefaultConfig()
	c.Users = userFile(t, users)
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := c.Door()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func commonNames(names ...string) *x509.Certificate {
	c := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
	for _, n := range names {
		c.Subject.Names = append(c.Subject.Names, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: n})
	}
	return c
}

func TestNoDoor(t *testing.T) {
	d, err := DefaultConfig().Door()
	if d != nil || err != nil {
		t.Error(d, err)
	}
	if _, ok := d.PSK("ann"); ok || !d.Vouches("mqtt", Principal{}) {
		t.Error("the nil door")
	}
}

// [faults C 57] nothing empty proves anything; [faults C 59] who says nothing of
// himself is let in only where the settings say so.
func TestAdmit(t *testing.T) {
	d := doorOf(t, "ann:"+mosquitto6+" groups=ops max-messages=5\nbob:"+mosquitto7+" protocols=amqp\ncert:* groups=devices\n", func(c *Config) {
		c.Anonymous = []string{"coap"}
		c.Certificate.User = "{cn}"
	})
	for i, c := range []struct {
		from Credentials
		user string
		bad  Reason
	}{
		{Credentials{Protocol: "mqtt", User: "ann", Password: "secret"}, "ann", ""},
		{Credentials{Protocol: "mqtt", User: "ann", Password: "Secret"}, "", BadPassword},
		{Credentials{Protocol: "mqtt", User: "ann"}, "", BadPassword},
		{Credentials{Protocol: "mqtt", Password: "secret"}, "", BadPassword},
		{Credentials{Protocol: "mqtt"}, "", BadAnonymous},
		{Credentials{Protocol: "coap"}, "", ""},
		{Credentials{Protocol: "coap", User: "ann"}, "", BadPassword},
		{Credentials{Protocol: "mqtt", User: "bob", Password: "secret"}, "", BadProtocol},
		{Credentials{Protocol: "amqp", User: "bob", Password: "secret"}, "bob", ""},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("cert")}, "cert", ""},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("stranger")}, "stranger", ""},
		{Credentials{Protocol: "mqtt", User: "cert", Certificate: commonNames("cert")}, "cert", ""},
		{Credentials{Protocol: "mqtt", User: "ann", Certificate: commonNames("cert")}, "", BadCertificate},
		{Credentials{Protocol: "mqtt", User: "ann", Password: "secret", Certificate: commonNames("cert")}, "ann", ""},
		{Credentials{Protocol: "mqtt", User: "ann", Password: "wrong", Certificate: commonNames("ann")}, "", BadPassword},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("bob")}, "", BadProtocol},
		{Credentials{Protocol: "mqtt", Certificate: commonNames()}, "", BadCertificate},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("")}, "", BadCertificate},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("cert", "ann")}, "", BadCertificate},
		{Credentials{Protocol: "mqtt", Certificate: commonNames("<b>\x00")}, "", BadCertificate},
		{Credentials{Protocol: "coap", PSK: "ann"}, "ann", ""},
		{Credentials{Protocol: "coap", PSK: "bob"}, "", BadProtocol},
		{Credentials{Protocol: "coap", PSK: "a:b"}, "", BadKey},
		{Credentials{Protocol: "coap", PSK: "ann", User: "bob"}, "", BadKey},
		// Without keys for tokens a token is a wrong password.
		{Credentials{Protocol: "mqtt", User: "ann", Password: "eyJhbGciOiJub25lIn0.e30."}, "", BadPassword},
	} {
		c.from.ClientID = "id"
		p, err := d.Admit(t.Context(), c.from)
		var r *Refusal
		if errors.As(err, &r); (err != nil) != (c.bad != "") || err != nil && (r == nil || r.Reason != c.bad) || p.User != c.user {
			t.Errorf("%d: %+v, %v; want %q, %q", i, p, err, c.user, c.bad)
		}
		if err == nil && p.ClientID != "id" || err != nil && !reflect.DeepEqual(p, Principal{}) {
			t.Errorf("%d: %+v", i, p)
		}
	}
	p, err := d.Admit(t.Context(), Credentials{Protocol: "mqtt", User: "ann", Password: "secret"})
	if err != nil || !slices.Equal(p.Groups, []string{"ops"}) || p.Limits.Messages != 5 || !p.Until.IsZero() {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAdmitTokens(t *testing.T) {
	k := newKeyring(t)
	d := doorOf(t, "ann:"+mosquitto6+" groups=staff networks=10.0.0.0/8\n", func(c *Config) { c.Token = k.config("ed.pem") })
	text := k.token(t, "EdDSA", "ed", "", soon())
	at := netip.MustParseAddr("10.0.0.1")
	for i, c := range []struct {
		from Credentials
		bad  Reason
	}{
		{Credentials{Password: text, Remote: at}, ""},
		{Credentials{User: "ann", Password: text, Remote: at}, ""},
		{Credentials{User: "bob", Password: text, Remote: at}, BadToken},
		{Credentials{User: "ann", Password: text, Remote: netip.MustParseAddr("11.0.0.1")}, BadNetwork},
		{Credentials{User: "ann", Password: text[:len(text)-8], Remote: at}, BadToken},
		{Credentials{User: "ann", Password: "secret", Remote: at}, ""},
	} {
		p, err := d.Admit(t.Context(), c.from)
		var r *Refusal
		if errors.As(err, &r); (err != nil) != (c.bad != "") || err != nil && r.Reason != c.bad {
			t.Errorf("%d: %+v, %v", i, p, err)
		}
		if i == 0 && !slices.Equal(p.Groups, []string{"ops", "staff"}) {
			t.Errorf("groups %v", p.Groups)
		}
	}
}

// [faults C 56] a name is of the right kind, there once, and all of it.
func TestCertificateNames(t *testing.T) {
	u, _ := url.Parse("spiffe://example.org/device/7")
	c := commonNames("dev 7")
	c.DNSNames, c.EmailAddresses, c.URIs = []string{"seven.example.org"}, []string{"a@example.org", "b@example.org"}, []*url.URL{u}
	c.Subject.CommonName = "not looked at"
	for _, x := range []struct{ rule, want string }{
		{"{cn}", "dev 7"}, {"cert-{cn}@{dns}", "cert-dev 7@seven.example.org"}, {"{dns}", "seven.example.org"},
		{"{email}", ""}, {"{uri}", "example.org/device/7"},
	} {
		cfg := CertificateConfig{User: x.rule}
		if name, err := cfg.name(c); name != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s: %q, %v", x.rule, name, err)
		}
	}
	for _, bad := range []string{"ann", "{ou}", "{cn", "a:{cn}", "{cn}{}"} {
		if (CertificateConfig{User: bad}).Validate() == nil {
			t.Errorf("%s is a rule", bad)
		}
	}
	listed := doorOf(t, "ann:*\n", func(c *Config) { c.Certificate = CertificateConfig{User: "{cn}", Listed: true, Always: true} })
	for name, ok := range map[string]bool{"ann": true, "Ann": false, "bob": false} {
		p, err := listed.Admit(t.Context(), Credentials{Certificate: commonNames(name), Password: "whatever"})
		if (err == nil) != ok || ok && p.Until.IsZero() {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := listed.Admit(t.Context(), Credentials{User: "bob", Password: "x", Certificate: commonNames("ann")}); !errors.Is(err, ErrRefused) {
		t.Error("always, and another name:", err)
	}
}

// Who may stay when the settings are read again.
func TestVouches(t *testing.T) {
	k := newKeyring(t)
	before := "ann:" + mosquitto6 + " groups=ops\nbob:" + mosquitto7 + "\n"
	with := func(users string, change func(*Config)) *Door {
		return doorOf(t, users, func(c *Config) {
			c.Token, c.Certificate.User, c.Anonymous = k.config("ed.pem", "hs.key"), "{cn}", []string{"coap"}
			if change != nil {
				change(c)
			}
		})
	}
	d := with(before, nil)
	in := map[string]Principal{}
	for name, c := range map[string]Credentials{
		"ann": {User: "ann", Password: "secret"}, "bob": {User: "bob", Password: "secret"}, "nobody": {Protocol: "coap"},
		"token": {Password: k.token(t, "EdDSA", "ed", "ed", soon())}, "stranger": {Certificate: commonNames("stranger")}, "psk": {PSK: "bob"},
	} {
		p, err := d.Admit(t.Context(), c)
		if err != nil {
			t.Fatal(name, err)
		}
		in[name] = p
	}
	for i, c := range []struct {
		door *Door
		out  []string
	}{
		{d, nil},
		{with(before, nil), nil},
		{nil, nil},
		{with("ann:"+mosquitto6+" groups=ops\n", nil), []string{"bob", "psk"}},
		{with("ann:"+mosquitto6+" groups=ops\nbob:"+mosquitto6+"\n", nil), []string{"bob", "psk"}},
		{with("ann:"+mosquitto6+"\nbob:"+mosquitto7+"\n", nil), []string{"ann", "token"}},
		{with(before+"stranger:* protocols=http\n", nil), []string{"stranger"}},
		{with(before, func(c *Config) { c.Token.Keys = k.paths("hs.key") }), []string{"token"}},
		{with(before, func(c *Config) { c.Token.Keys = nil }), []string{"token"}},
		{with(before, func(c *Config) { c.Certificate.User = "dev-{cn}" }), []string{"stranger"}},
		{with(before, func(c *Config) { c.Certificate.Listed = true }), []string{"stranger"}},
		{with(before, func(c *Config) { c.Anonymous = nil }), []string{"nobody"}},
		{with("", nil), []string{"ann", "bob", "psk", "token"}},
	} {
		var out []string
		for name, p := range in {
			if !c.door.Vouches("coap", p) {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		if !slices.Equal(out, c.out) {
			t.Errorf("%d: out are %q, want %q", i, out, c.out)
		}
	}
	if d.Vouches("mqtt", in["nobody"]) {
		t.Error("anonymous by another protocol")
	}
	if d.Vouches("mqtt", Principal{User: "ann"}) {
		t.Error("a principal that no door made")
	}
}

// [faults C 60] WAMP-CRA: every name has a salt, the same each time, and an
// unknown one no signature that fits.
func TestCRA(t *testing.T) {
	path := userFile(t, "first:*\n")
	for _, name := range []string{"ann", "bob"} {
		if _, err := ChangeUser(path, name, Change{Password: "secret", CRA: name == "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *Door {
		u, err := ReadUsers(path)
		if err != nil {
			t.Fatal(err)
		}
		return NewDoor(u)
	}
	d := open()
	sign := func(name, password, challenge string) string {
		s := d.Salt(name)
		k := craKey{passes: s.Passes, salt: s.Salt}
		if err := k.derive(password); err != nil || s.Length != 32 {
			t.Fatal(err, s)
		}
		h := hmac.New(sha256.New, []byte(k.key))
		h.Write([]byte(challenge))
		return base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	for _, c := range []struct {
		name, password string
		ok             bool
	}{{"ann", "secret", true}, {"ann", "Secret", false}, {"bob", "secret", false}, {"nobody", "secret", false}, {"", "", false}} {
		p, err := d.Admit(t.Context(), Credentials{User: c.name, CRA: &CRA{"challenge", sign(c.name, c.password, "challenge")}})
		if (err == nil) != c.ok || c.ok && p.User != "ann" {
			t.Errorf("%+v: %+v, %v", c, p, err)
		}
	}
	if _, err := d.Admit(t.Context(), Credentials{User: "ann", CRA: &CRA{"another", sign("ann", "secret", "challenge")}}); !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	if _, err := ChangeUser(path, "dora", Change{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	again := open()
	seen := map[string]bool{}
	for _, name := range []string{"ann", "bob", "nobody", "else", ""} {
		a, b := d.Salt(name), again.Salt(name)
		if a != b || a.Passes != d.Salt("ann").Passes || len(a.Salt) != len(d.Salt("ann").Salt) || seen[a.Salt] {
			t.Errorf("%q: %+v, %+v", name, a, b)
		}
		seen[a.Salt] = true
	}
}

func TestPSK(t *testing.T) {
	d := doorOf(t, "ann:* psk="+psk+"\nbob:"+mosquitto6+"\n", nil)
	if k, ok := d.PSK("ann"); !ok || len(k) != 16 || k[15] != 15 {
		t.Error(k, ok)
	}
	for _, name := range []string{"bob", "nobody", ""} {
		if k, ok := d.PSK(name); ok || k != nil {
			t.Error(name, k)
		}
	}
}

// [faults C 46] files that are not right open no door, and not half of one.
func TestBadDoor(t *testing.T) {
	k := newKeyring(t)
	good := userFile(t, "ann:"+mosquitto6+"\n")
	for _, change := range []func(*Config){
		func(c *Config) { c.Users = userFile(t, "ann\n") },
		func(c *Config) { c.Users = good + "x" },
		func(c *Config) { c.Token.Keys = []string{good + "x"} },
		func(c *Config) { c.Token = k.config("ed.pem"); c.Users = good + "x" },
	} {
		c := DefaultConfig()
		c.Users = good
		change(&c)
		if d, err := c.Door(); d != nil || err == nil {
			t.Error(d, err)
		}
	}
	if err := os.Remove(good); err != nil {
		t.Fatal(err)
	}
}
