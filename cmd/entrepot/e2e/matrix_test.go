package e2e

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	rights "entrepot/core/auth"
)

const matrixFile = "../../../testdata/matrix.txt"

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// matrixRow is one way of a protocol to do something that a rule is about; the
// head of testdata/matrix.txt says what the columns mean.
type matrixRow struct {
	line     int
	protocol string
	action   string
	doors    []string
	object   string   // of the rule
	extra    []string // other rules that it takes
	denied   string   // the object of the rule against it
	settings []string
	does     []string
	refusal  string
	effect   string
	carrier  string // of CoAP: "" is UDP, where clients are nobody; else what is behind its connect
}

// absent is a combination that a protocol does not have.
type absent struct{ protocol, what string }

func (r *matrixRow) String() string {
	return fmt.Sprintf("line %d: %s %s %s: %s", r.line, r.protocol, r.action, r.object, strings.Join(r.does, "; "))
}

// who is the client in rules.
func (r *matrixRow) who() string {
	if r.protocol == "coap" && r.carrier == "" {
		return "anonymous"
	}
	return "user:ann"
}

// carriers are the ways by which the row is played, by a name: over DTLS and TLS
// CoAP's clients have proved who they are, by a key and a certificate.
func (r *matrixRow) carriers() map[string]string {
	if r.protocol != "coap" {
		return map[string]string{r.protocol: ""}
	}
	return map[string]string{"coap": "", "coap over DTLS": " login=ann psk=0123456789abcdef", "coap over TLS": " login=ann certificate"}
}

// kind is what the rule is about, as auth has it.
func (r *matrixRow) kind() rights.ObjectKind {
	for prefix, kind := range map[string]rights.ObjectKind{"queue:": rights.Queue, "exchange:": rights.Exchange, "rpc:": rights.Procedure} {
		if strings.HasPrefix(r.object, prefix) {
			return kind
		}
	}
	return rights.Topic
}

func (r *matrixRow) through(door string) bool { return slices.Contains(r.doors, door) }

// readMatrix reads the table.
func readMatrix(t *testing.T) (rows []*matrixRow, none map[absent]string) {
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	none = map[absent]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		if len(cells) == 4 && cells[1] == "none" {
			for _, what := range list(cells[2], ",") {
				none[absent{cells[0], what}] = cells[3]
			}
			continue
		}
		if len(cells) != 7 {
			t.Fatalf("line %d: %d cells", i+1, len(cells))
		}
		r := &matrixRow{line: i + 1, protocol: cells[0], action: cells[1], doors: list(cells[2], ","), does: list(cells[4], ";"),
			refusal: cells[5], effect: cells[6]}
		r.readObject(list(cells[3], ";"))
		rows = append(rows, r)
	}
	return rows, none
}

// list cuts a cell.
func list(cell, at string) []string {
	parts := strings.Split(cell, at)
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func (r *matrixRow) readObject(parts []string) {
	r.object, r.denied = parts[0], parts[0]
	for _, p := range parts[1:] {
		if but, ok := strings.CutPrefix(p, "but "); ok {
			r.denied = but
		} else if s, ok := strings.CutPrefix(p, "with "); ok {
			r.settings = append(r.settings, s)
		} else {
			r.extra = append(r.extra, p)
		}
	}
}

// played is what came of a row.
type played struct {
	told          string // to ann
	seen          string // by the observer
	before, after string // what was there
	last          string // after the observer's part
}

// rules of a play: the observer's, and a row's.
func (r *matrixRow) rules(lines ...string) string {
	lines = append(lines, "allow user:root all")
	for _, x := range r.extra {
		lines = append(lines, "allow "+r.who()+" "+x)
	}
	return strings.Join(lines, "\n")
}

// play has ann do what the row says, under rules.
func (r *matrixRow) play(t *testing.T, rules string) (p played) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newMatrixHouse(t, r, rules)
		defer h.leave()
		var log strings.Builder
		login := map[string]string{"stomp": " login:ann passcode:secret", "coap": r.carrier}
		words, ok := login[r.protocol]
		if !ok {
			words = " login=ann password=secret"
		}
		does := r.does
		if !strings.HasPrefix(does[0], "connect") {
			h.ann(r.protocol, "connect"+words, &strings.Builder{})
		}
		p.before = h.state()
		for _, line := range does {
			if strings.HasPrefix(line, "connect") {
				line += words
			}
			h.ann(r.protocol, line, &log)
		}
		h.rest()
		h.listen(&log)
		p.after = h.state()
		h.tempt()
		h.listen(&log)
		p.last = h.state()
		p.told, p.seen = log.String(), h.saw()
	})
	return p
}

// happened tells whether what the row is about took effect.
func (r *matrixRow) happened(p played) bool {
	effect := r.effect
	if effect == "" {
		effect = map[string]string{"publish": "evil", "call": "evil", "declare": "state"}[r.action]
	}
	if effect == "" && (r.through("replay") || r.through("lastvalue")) {
		effect = "answer kept"
	}
	switch answer, ok := strings.CutPrefix(effect, "answer "); {
	case ok:
		return strings.Contains(p.told, answer)
	case effect == "evil":
		return strings.Contains(p.seen, "evil")
	case effect == "state":
		return p.before != p.after
	case effect == "bound":
		return p.after != p.last
	}
	return strings.Contains(p.told, "secret")
}

// harmless tells whether nothing at all came of it.
func (r *matrixRow) harmless(p played) bool {
	if r.through("wide") {
		return !strings.Contains(p.told, "secret")
	}
	return !r.happened(p) && !strings.Contains(p.seen, "evil") && !strings.Contains(p.told, "secret") &&
		!strings.Contains(p.told, "kept") && p.before == p.after && p.after == p.last
}

func (r *matrixRow) refused(p played) bool {
	return r.refusal == "-" || strings.Contains(p.told, r.refusal)
}

// report says what went otherwise.
func (r *matrixRow) report(t *testing.T, what string, p played) {
	t.Helper()
	t.Errorf("%s\n%s\ntold: %s\nseen: %s\nbefore: %s\nafter:  %s", r, what, p.told, p.seen, p.before, p.after)
}

// check plays a row: with the rule that allows it, with one that denies it
// beside all other rights, and without either.
func (r *matrixRow) check(t *testing.T) {
	allow := r.rules(fmt.Sprintf("allow %s %s %s", r.who(), r.action, r.object))
	action := r.action
	if r.through("passive") { // any right is enough
		action = "all"
	}
	deny := r.rules("allow "+r.who()+" all", fmt.Sprintf("deny %s %s %s", r.who(), action, r.denied))
	allowed, denied, nothing := r.play(t, allow), r.play(t, deny), r.play(t, r.rules())
	if r.through("other") { // another name, which the rules are not about
		allowed, denied = denied, allowed
		if r.effect == "nothing" {
			if r.harmless(allowed) && r.harmless(denied) && r.refused(denied) && !(r.refusal != "-" && r.refused(allowed)) {
				return
			}
			r.report(t, "another name, denied", allowed)
			r.report(t, "another name, allowed", denied)
			return
		}
	}
	if !r.happened(allowed) || r.refusal != "-" && r.refused(allowed) {
		r.report(t, "allowed, and has no effect", allowed)
	}
	if !r.harmless(denied) || !r.through("wide") && !r.refused(denied) {
		r.report(t, "denied", denied)
	}
	if !r.harmless(nothing) || !r.refused(nothing) || strings.Contains(nothing.told, "kept") {
		r.report(t, "without a rule", nothing)
	}
}

// Every way of every protocol to publish, subscribe, consume, declare, call and
// register, in each spelling of a name, live and by side doors, is allowed by
// its rule alone, and without it refused in the protocol's own terms and without
// effect. It shows fault 36, fault 40, fault 42, fault 51, fault 52 and fault 101.
func TestRightsMatrix(t *testing.T) {
	rows, none := readMatrix(t)
	for _, r := range rows {
		for name, carrier := range r.carriers() {
			t.Run(fmt.Sprintf("%s/%s/%d", name, r.action, r.line), func(t *testing.T) {
				t.Parallel()
				as := *r
				as.carrier = carrier
				as.check(t)
			})
		}
	}
	everyWayHasARow(t, rows, none)
}
