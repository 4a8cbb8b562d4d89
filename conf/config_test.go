package conf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestSampleEqualsDefaults(t *testing.T) {
	c, err := Load(write(t, Sample), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := DefaultConfig(); !reflect.DeepEqual(c, want) {
		have, all := c.settings(), want.settings()
		for i := range all {
			if a, b := have[i].value.Interface(), all[i].value.Interface(); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %v in the sample, %v by default", all[i].key(), a, b)
			}
		}
	}
}

// A sample that equals the defaults could still leave keys out.
func TestSampleHasEveryKey(t *testing.T) {
	lines := linesOf([]byte(Sample))
	c := DefaultConfig()
	for _, s := range c.settings() {
		if commented := strings.Contains(Sample, "\n# [["+s.key()+"]]\n"); lines[s.key()] == 0 && !commented {
			t.Errorf("%s is not in the sample", s.key())
		}
	}
}

func TestSampleSaysEachKeyOfItsOwn(t *testing.T) {
	c := Config{} // nothing set: what comes back is the sample's alone
	if err := c.readText("sample", []byte(Sample)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, DefaultConfig()) {
		t.Errorf("%+v", c)
	}
}

func TestFileChangesWhatItNames(t *testing.T) {
	c, err := Load(write(t, `
mqtt.listen = ["127.0.0.1:0", "unix:/run/e/mqtt.sock"]
[mqtt.limits]
linger = "1m30s"
max_pending = 7
[broker]
max_message = "2KiB"
max_retained_bytes = 4096
[log]
level = "debug"
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.MQTT.Listen = []string{"127.0.0.1:0", "unix:/run/e/mqtt.sock"}
	want.MQTT.Limits.Linger = 90 * time.Second
	want.MQTT.Limits.MaxPending = 7
	want.Broker.MaxMessage, want.Broker.MaxRetainedBytes = 2048, 4096
	want.Log.Level = "debug"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // one a line
	}{
		{"unknown key", "[mqtt]\nlistn = []\n", []string{":2: mqtt.listn: no such key; is mqtt.listen meant?"}},
		{"unknown key, nothing near", "[mqtt]\nfrobnicate = 1\n", []string{":2: mqtt.frobnicate: no such key"}},
		{"key in the wrong section", "[stomp]\nmax_packet = 1\n", []string{":2: stomp.max_packet: no such key; is mqtt.max_packet meant?"}},
		{"key in no section", "level = \"debug\"\n", []string{":1: level: no such key; is log.level meant?"}},
		{"unknown section", "[log]\n\n[mqqt]\nlisten = []\n", []string{":3: mqqt: no such section; is mqtt meant?"}},
		{"unknown section, nothing near", "[frobnicate]\n", []string{":1: frobnicate: no such section"}},
		{"unknown inner section", "[mqtt.limit]\nlinger = \"1s\"\n", []string{":1: mqtt.limit: no such section; is mqtt.limits meant?"}},
		{"capital letters", "[mqtt]\nListen = []\n", []string{":2: mqtt.Listen: no such key; is mqtt.listen meant?"}},
		{"section as a key", "mqtt = 5\n", []string{":1: mqtt: is a section, not a key"}},
		{"section many times", "[[mqtt]]\n", []string{":1: mqtt: is a section, not a key"}},
		{"key as a section", "[mqtt.listen]\n", []string{`:1: mqtt.listen: wants a list of texts such as ["a", "b"]`}},
		{"all faults in order", "[log]\nlevl = 1\n[broker]\nx_y_z = 2\nmax_message = true\n", []string{
			":2: log.levl: no such key; is log.level meant?", ":4: broker.x_y_z: no such key", ":5: broker.max_message: wants a whole number"}},
		{"text for a list", "[mqtt]\nlisten = \"127.0.0.1:1883\"\n", []string{`:2: mqtt.listen: wants a list of texts such as ["a", "b"], not "127.0.0.1:1883"`}},
		{"number in a list", "[mqtt]\nlisten = [1883]\n", []string{":2: mqtt.listen: wants a list of texts"}},
		{"number for a time", "[mqtt.limits]\nlinger = 5\n", []string{`:2: mqtt.limits.linger: wants a time such as "10s" or "1m30s", not 5`}},
		{"time without unit", "[mqtt.limits]\nlinger = \"5\"\n", []string{`:2: mqtt.limits.linger: wants a time such as "10s" or "1m30s", not "5"`}},
		{"text for a number", "[mqtt.limits]\nmax_pending = \"many\"\n", []string{`:2: mqtt.limits.max_pending: wants a whole number, or one such as "16MiB", not "many"`}},
		{"broken number", "[mqtt.limits]\nmax_pending = 1.5\n", []string{":2: mqtt.limits.max_pending: wants a whole number, or one such as \"16MiB\", not 1.5"}},
		{"negative size", "[broker]\nmax_message = \"-1KiB\"\n", []string{":2: broker.max_message: wants a whole number"}},
		{"huge size", "[broker]\nmax_message = \"9999999999GiB\"\n", []string{":2: broker.max_message: wants a whole number"}},
		{"number for a word", "[log]\nlevel = 3\n", []string{":2: log.level: wants a text in quotes, not 3"}},
		{"word for yes or no", "[mqtt]\norigin_property = \"yes\"\n", []string{`:2: mqtt.origin_property: wants true or false, not "yes"`}},
		{"no TOML", "[mqtt\nlisten", []string{":1:6: expected ']' to close table name"}},
		{"twice", "[log]\nlevel = \"info\"\nlevel = \"warn\"\n", []string{":3:1: key level is already defined"}},
		{"not UTF-8", "[log]\nlevel = \"\xff\"\n", []string{":2:10: invalid UTF-8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.text)
			_, err := Load(path, nil)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("error %q", err)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], path+want) {
					t.Errorf("error %q, want %q", lines[i], path+want)
				}
			}
		})
	}
}

func TestFilesThatAreNone(t *testing.T) {
	large := write(t, strings.Repeat("#\n", maxFile))
	for name, path := range map[string]string{"missing": filepath.Join(t.TempDir(), "no.toml"), "folder": t.TempDir(), "large": large} {
		if _, err := Load(path, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestValidationNamesTheKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[broker]\nmax_message = 0", "broker: "},
		{"[mqtt]\nmax_qos = 3", "mqtt: max_qos 3"},
		{"[mqtt.limits]\nlogin_timeout = \"1ms\"", "mqtt: limits: login_timeout 1ms"},
		{"[stomp]\nmax_headers = 1", "stomp: max_headers 1"},
		{"[http]\nidle_timeout = \"0s\"", "http: idle_timeout 0s"},
		{"[websocket]\nmax_message = 1", "websocket: max_message 1"},
		{"[websocket]\norigins = [\"app.example\"]", `websocket: origins: "app.example" is no origin`},
		{"[log]\nlevel = \"loud\"", `log: level "loud": debug, info, warn or error`},
		{"[log]\nformat = \"xml\"", `log: format "xml": text or json`},
		{"[tls]\nclient_auth = \"maybe\"", `tls: client_auth "maybe": off, request or require`},
		{"[tls]\nclient_auth = \"request\"", `tls: client_auth "request": needs client_cas`},
		{"[tls]\nclient_auth = \"\"", `tls: client_auth "": off, request or require`},
		{"[tls]\ncerts = [\"a\"]", "tls: 1 certs and 0 keys: each file of certs has its key"},
		{"[tls]\ncrls = [\"a\"]", "tls: crls: are those of client_cas, which is empty"},
		{"[tls]\nmin_version = \"1.1\"", `tls: min_version "1.1": 1.2 or 1.3`},
		{"[process]\ngrace = \"-1s\"", "process: grace -1s"},
		{"[process]\nmemory_limit = \"1MiB\"", "process: memory_limit 1048576"},
		{"[process]\ngc_headroom = -1", "process: gc_headroom -1"},
		{"auth.users = \"u\"\n[mqtt]\nlisten = [\"0.0.0.0:1883\"]", `mqtt: listen: "0.0.0.0:1883" can be reached from other machines`},
		{"[stomp]\nlisten = [\"127.0.0.1:1883\"]", "stomp: listen: tcp 127.0.0.1:1883 is named by mqtt already"},
		{"mqtt.listen = [\"off\"]\nstomp.listen = []\namqp.listen = []\ncoap.listen = []\nhttp.listen = [\"off\"]", "listen: every protocol is off"},
	} {
		config, err := Load(write(t, c.text), nil)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		err = config.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
}

// Who may do what, from the file and from the environment.
func TestAuthSettings(t *testing.T) {
	file := write(t, "[auth]\nusers = \"/etc/users\"\ndeny_subscribe = [\"a/#\", \"b,c\"]\ndeny_publish = [\"x\"]\n")
	c, err := Load(file, []string{"ENTREPOT_AUTH_DENY_PUBLISH=cmd/#, +/set"})
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Auth.Users = "/etc/users"
	want.Auth.DenySubscribe, want.Auth.DenyPublish = []string{"a/#", "b,c"}, []string{"cmd/#", "+/set"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Auth.DenyPublish = []string{"a#"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `auth: deny_publish: "a#"`) {
		t.Errorf("error %v", err)
	}
}
