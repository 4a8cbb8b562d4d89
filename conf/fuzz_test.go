package conf

import (
	"strings"
	"testing"
)

// FuzzFile: any text is settings or an error that names the file, and settings
// that are read are judged.
func FuzzFile(f *testing.F) {
	for _, text := range []string{
		"", "data = \"x\"\n[mqtt]\nlisten = [\"127.0.0.1:0\"]\n", "[mqtt]\nmax_packet = -1\n[mqtt.limits]\nlogin_timeout = \"1h\"\n",
		"mqtt = 3", "[[policies]]\nname = \"a\"\npattern = \".\"\n[policies.arguments]\nx-max-length = 5\n", "a.b.c = 1\n\"mqtt\".listen = 5",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := DefaultConfig()
		err := c.readText("settings.toml", []byte(text))
		if err != nil && !strings.Contains(err.Error(), "settings.toml") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			// What it says is its own tests' affair.
			_ = c.Validate()
		}
	})
}
