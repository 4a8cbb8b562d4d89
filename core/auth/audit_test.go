package auth

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
)

// Fault 58, fault 99: a client's words cannot make a line of their own or a long one.
func TestAuditLines(t *testing.T) {
	for _, c := range []struct {
		name string
		line Audit
		want string
	}{
		{"login", Audit{Act: "login", Outcome: Refused, Reason: "unknown user", Protocol: "mqtt", User: "ann", ClientID: "c 1",
			Remote: netip.MustParseAddr("192.0.2.1")},
			`level=WARN msg=audit protocol=mqtt user=ann client="c 1" remote=192.0.2.1 act=login outcome=refused reason="unknown user"`},
		{"done", Audit{Act: "queue_purge", Object: "orders", Outcome: Done, Protocol: "token"},
			`level=INFO msg=audit protocol=token user="" remote=local act=queue_purge object=orders outcome=done`},
		{"line ends", Audit{Act: "a", User: "ann\nlevel=INFO \x1b[2J\u202e", Outcome: Failed},
			`level=WARN msg=audit protocol="" user="ann�level=INFO �[2J�" remote=local act=a outcome=failed`},
		{"bad UTF-8", Audit{Act: "a", Object: "\xff\xfe", Outcome: Done},
			`level=INFO msg=audit protocol="" user="" remote=local act=a object="��" outcome=done`},
		{"long", Audit{Act: "a", Object: strings.Repeat("x", 10_000), Outcome: Done},
			`level=INFO msg=audit protocol="" user="" remote=local act=a object=` + strings.Repeat("x", 256) + `… outcome=done`},
	} {
		var out bytes.Buffer
		c.line.Write(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})))
		if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
