package auth

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"unicode"
)

// Outcome is how an act ended.
type Outcome string

const (
	Done    Outcome = "done"
	Refused Outcome = "refused" // by who it was or what it may do
	Failed  Outcome = "failed"  // allowed, and not done
)

// Audit is a line of the log on one act that concerns the broker itself: a
// log-in that was refused, something that an operator did or wanted to do. It
// has one shape whatever protocol the act came by, and holds no secret: whoever
// fills it in sees to that for Reason.
type Audit struct {
	Act      string // a word or two of the broker's own, with _ for blanks: login, queue_purge
	Object   string // what it was done to; may be a client's word
	Outcome  Outcome
	Reason   string // of what was refused or failed
	Protocol string // as in Credentials; token for who has the control file
	User     string // who was proved, for a refused log-in who it said it was
	ClientID string
	Remote   netip.Addr // the zero Addr is a unix socket or a pipe
	Listener string     // as in Credentials
}

// mostAudit bounds each value of a line, in bytes.
const mostAudit = 256

// Write writes the line: a warning for what was not done.
func (a Audit) Write(log *slog.Logger) {
	level := slog.LevelInfo
	if a.Outcome != Done {
		level = slog.LevelWarn
	}
	log.LogAttrs(context.Background(), level, "audit", a.attrs()...)
}

func (a Audit) attrs() []slog.Attr {
	remote := "local"
	if a.Remote.IsValid() {
		remote = a.Remote.String()
	}
	attrs := []slog.Attr{slog.String("protocol", a.Protocol), slog.String("user", printable(a.User))}
	if a.ClientID != "" {
		attrs = append(attrs, slog.String("client", printable(a.ClientID)))
	}
	attrs = append(attrs, slog.String("remote", remote))
	if a.Listener != "" {
		attrs = append(attrs, slog.String("listener", a.Listener))
	}
	attrs = append(attrs, slog.String("act", a.Act))
	if a.Object != "" {
		attrs = append(attrs, slog.String("object", printable(a.Object)))
	}
	attrs = append(attrs, slog.String("outcome", string(a.Outcome)))
	if a.Reason != "" {
		attrs = append(attrs, slog.String("reason", printable(a.Reason)))
	}
	return attrs
}

// printable is a text of a client's that can stand in a log whatever reads that:
// short, valid UTF-8, without line ends, escape sequences and marks that turn
// the direction of writing.
func printable(text string) string {
	long := len(text) > mostAudit
	if long {
		text = text[:mostAudit]
	}
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	if long {
		text += "…"
	}
	return text
}
