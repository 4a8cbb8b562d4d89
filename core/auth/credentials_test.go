package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// fault 58: credentials are printed without what proves them, however.
func TestCredentialsPrintNoSecret(t *testing.T) {
	c := Credentials{Protocol: "mqtt", User: "ann", ClientID: "c", Password: "sesame"}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "credentials", c, "list", []Credentials{c}, "at", &c)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		fmt.Fprintf(&log, verb+" "+verb+" "+verb, c, &c, []Credentials{c})
	}
	if text := log.String(); strings.Contains(text, "sesame") || !strings.Contains(text, `mqtt client "c" of user "ann"`) {
		t.Error(text)
	}
}
