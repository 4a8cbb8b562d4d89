package auth

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const psk = "000102030405060708090a0b0c0d0e0f"

func TestAttributes(t *testing.T) {
	a, err := parseAccount("ann", mosquitto6+" groups=ops,plant-7 protocols=mqtt,coap listeners=127.0.0.1:1883,unix:/run/m"+
		" networks=10.0.0.0/8,192.0.2.7,2001:db8::/32 max-connections=5 max-messages=100 max-bytes=1048576 psk="+psk+" cra=1000$saltsalt$"+
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a.groups, []string{"ops", "plant-7"}) || a.limits != (Limits{5, 100, 1 << 20}) || len(a.psk) != 16 || a.cra.passes != 1000 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		from Credentials
		want Reason
	}{
		{Credentials{Protocol: "mqtt", Listener: "unix:/run/m"}, ""},
		{Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("10.255.0.1")}, ""},
		{Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("::ffff:10.255.0.1")}, ""},
		{Credentials{Protocol: "coap", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("192.0.2.7")}, ""},
		{Credentials{Protocol: "coap", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("2001:db8:1::7%eth0")}, ""},
		{Credentials{Protocol: "amqp", Listener: "127.0.0.1:1883"}, BadProtocol},
		{Credentials{Protocol: "mqtt", Listener: "0.0.0.0:1883"}, BadListener},
		{Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("11.0.0.1")}, BadNetwork},
		{Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("192.0.2.8")}, BadNetwork},
		{Credentials{Protocol: "mqtt", Listener: "127.0.0.1:1883", Remote: netip.MustParseAddr("2001:db9::1")}, BadNetwork},
	} {
		if got := a.admits(&c.from); got != c.want {
			t.Errorf("%+v: %q, want %q", c.from, got, c.want)
		}
	}
}

// [faults C 45] what stands behind a hash is all understood, or nothing is.
func TestBadAttributes(t *testing.T) {
	for behind, want := range map[string]string{
		" ":                                   "not KEY=VALUE",
		"  groups=a":                          "not KEY=VALUE",
		" groups":                             "not KEY=VALUE",
		" group=a":                            "not KEY=VALUE with one of cra, groups",
		" Groups=a":                           "not KEY=VALUE",
		" groups=a groups=b":                  "groups comes twice",
		" groups=":                            "not a list",
		" groups=a,,b":                        "not a list",
		" groups=a,a":                         "not a list",
		" groups=a:b":                         "no name of a group",
		" groups=#a":                          "no name of a group",
		" groups=" + strings.Repeat("x", 256): "no name of a group",
		" protocols=mqtt,http2":               `"http2" is none of`,
		" protocols=MQTT":                     "is none of",
		" networks=10.0.0.1/8":                "neither an address nor a network",
		" networks=10.0.0.0/33":               "neither",
		" networks=localhost":                 "neither",
		" networks=fe80::1%eth0":              "neither",
		" max-connections=0":                  "not a whole number",
		" max-messages=-1":                    "not a whole number",
		" max-bytes=1e6":                      "not a whole number",
		" max-bytes=0x10":                     "not a whole number",
		" psk=00":                             "16 to 64 bytes",
		" psk=" + psk[1:]:                     "16 to 64 bytes",
		" psk=" + strings.Repeat("zz", 16):    "16 to 64 bytes",
		" cra=secretsecret":                   "not PASSES$SALT$KEY",
		" cra=0$saltsalt$AAAA":                "not PASSES$SALT$KEY",
	} {
		_, err := ReadUsers(userFile(t, "ann:"+mosquitto6+behind+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ":1: user ann: ") {
			t.Errorf("%q: %v, want %s", behind, err, want)
		} else if strings.Contains(err.Error(), psk[2:]) || strings.Contains(err.Error(), "secretsecret") {
			t.Errorf("a secret is in %q", err)
		}
	}
	many := strings.Repeat("g,", maxList) + "h"
	if _, err := parseAccount("ann", "* groups="+many); err == nil {
		t.Error("a list without end")
	}
}

// A user without a password is not let in by any, the empty one too.
func TestNoPassword(t *testing.T) {
	u, err := ReadUsers(userFile(t, "ann:* groups=ops\nbob:"+mosquitto6+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "*", "secret"} {
		if err := u.Check(t.Context(), "ann", password); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", password, err)
		}
	}
}

// Changing one thing of a user leaves the rest.
func TestChangeAttributes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	for i, c := range []struct {
		change Change
		want   string // behind the hash
		bad    string
	}{
		{change: Change{Attributes: map[string]string{"groups": "a"}}, bad: "needs a password"},
		{change: Change{Password: "x", Attributes: map[string]string{"groups": "a,b"}}, want: " groups=a,b"},
		{change: Change{Attributes: map[string]string{"protocols": "mqtt", "max-bytes": "7"}}, want: " groups=a,b max-bytes=7 protocols=mqtt"},
		{change: Change{Password: "y"}, want: " groups=a,b max-bytes=7 protocols=mqtt"},
		{change: Change{Attributes: map[string]string{"max-bytes": "", "groups": "c"}}, want: " groups=c protocols=mqtt"},
		{change: Change{Attributes: map[string]string{"protocols": "telnet"}}, bad: "protocols"},
		{change: Change{Attributes: map[string]string{"colour": "red"}}, bad: "colour"},
		{change: Change{Attributes: map[string]string{"groups": "a psk=00"}}, bad: "no blanks"},
		{change: Change{CRA: true}, bad: "made from the password"},
		{change: Change{NoPassword: true, Password: "x"}, bad: "one or the other"},
		{change: Change{NoPassword: true}, want: " groups=c protocols=mqtt"},
	} {
		before, _ := os.ReadFile(path)
		_, err := ChangeUser(path, "ann", c.change)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) || string(before) != readIf(path) {
				t.Errorf("%d: %v, want %s", i, err, c.bad)
			}
			continue
		}
		_, behind, _ := strings.Cut(strings.TrimSuffix(readIf(path), "\n"), " ")
		if err != nil || " "+behind != c.want {
			t.Errorf("%d: %v, %q, want %q", i, err, behind, c.want)
		}
		if _, err := ReadUsers(path); err != nil {
			t.Error(i, err)
		}
	}
	if text := readIf(path); !strings.HasPrefix(text, "ann:* ") {
		t.Error(text)
	}
}

func readIf(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// A key for WAMP-CRA is of the password that the hash is of: with a new password
// the old key would still let its owner in.
func TestKeyGoesWithThePassword(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	key := func() string {
		u, err := ReadUsers(path)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := u.find("ann")
		if a.cra == nil {
			return ""
		}
		k := craKey{passes: a.cra.passes, salt: a.cra.salt}
		for _, password := range []string{"one", "two"} {
			if err := k.derive(password); err != nil || k.key == a.cra.key {
				return password
			}
		}
		return "?"
	}
	for _, c := range []struct {
		change Change
		want   string
	}{{Change{Password: "one"}, ""}, {Change{Password: "one", CRA: true}, "one"}, {Change{Password: "two"}, "two"}, {Change{NoPassword: true}, ""}} {
		if _, err := ChangeUser(path, "ann", c.change); err != nil || key() != c.want {
			t.Errorf("%+v: %v, %q", c, err, key())
		}
	}
}

// FuzzAccount: what is read of a line is read the same after it was written.
func FuzzAccount(f *testing.F) {
	f.Add("* groups=a,b max-bytes=7")
	f.Add(mosquitto6 + " networks=10.0.0.0/8 psk=" + psk)
	f.Add("* cra=1000$saltsalt$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAccount("ann", text)
		if err != nil {
			return
		}
		again, err := (&Change{Attributes: map[string]string{"groups": ""}}).apply(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseAccount("ann", again)
		if err != nil || b.limits != a.limits || len(b.networks) != len(a.networks) || len(b.groups) > 0 {
			t.Errorf("%q: %q: %v", text, again, err)
		}
	})
}
