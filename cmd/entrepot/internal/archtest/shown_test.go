package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// shown is a test that says which faults of testdata/faults.md it is about.
type shown struct {
	where string // as the table's column has it
	name  string
	items []int
	empty bool
}

const lastItem = 106

var (
	mention   = regexp.MustCompile(`\b[Ff]aults? (?:[A-F] )?(\d+(?:(?:, | and )(?:fault )?\d+)*)`)
	digits    = regexp.MustCompile(`\d+`)
	bracketed = regexp.MustCompile(`\[[^\]]*\] ?|,? ?\(?fault \d+\)?:? ?`)
)

// itemsIn are the numbers that a text names as "fault 12" or "faults 12 and 13".
func itemsIn(text string) []int {
	var items []int
	for _, m := range mention.FindAllStringSubmatch(text, -1) {
		for _, d := range digits.FindAllString(m[1], -1) {
			if n, _ := strconv.Atoi(d); n <= lastItem {
				items = append(items, n)
			}
		}
	}
	slices.Sort(items)
	return slices.Compact(items)
}

// shownTests are all that name a fault: Go tests, cases of the engine's suite,
// transcripts and scenarios.
func shownTests(t *testing.T) []shown {
	top, err := topFolder()
	if err != nil {
		t.Fatal(err)
	}
	var all []shown
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(top, s.path))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case s.pkg == "cmd/entrepot/internal/archtest" || s.exempt:
		case s.test:
			all = append(all, s.shownFunctions(string(text))...)
		case s.pkg == "core/enginetest":
			all = append(all, s.shownCases()...)
		}
	}
	files, err := filepath.Glob(filepath.Join(top, "testdata", "*", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, shownTranscripts(filepath.Base(filepath.Dir(file)), filepath.Base(file), string(text))...)
	}
	return all
}

func (s *source) shownFunctions(text string) []shown {
	var all []shown
	for _, f := range s.functions() {
		name := f.Name.Name
		if f.Recv != nil || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		part := text[s.fileSet.Position(from).Offset:s.fileSet.Position(f.End()).Offset]
		if items := itemsIn(part); len(items) > 0 {
			all = append(all, shown{place(s.path), "`" + s.pkg + "` " + name, items, !checks(f)})
		}
	}
	return all
}

// checks tells whether a test does anything with what it fails by.
func checks(f *ast.FuncDecl) bool {
	used := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		used = used || ok && (id.Name == "t" || id.Name == "f")
		return !used
	})
	return used
}

// shownCases are the titles in the engine's suite; that each has a function is
// seen by its compiler.
func (s *source) shownCases() []shown {
	var all []shown
	ast.Inspect(s.file, func(n ast.Node) bool {
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		title, err := strconv.Unquote(l.Value)
		if items := itemsIn(title); err == nil && len(items) > 0 {
			all = append(all, shown{"engine", "`" + s.path + "` " + plain(title), items, false})
		}
		return true
	})
	return all
}

// shownTranscripts reads the titles of one file of testdata/FOLDER: lines that
// begin with "== ", the first line of a STOMP transcript, comments of WAMP.
func shownTranscripts(folder, file, text string) []shown {
	mark, found := map[string]string{"mqtt": "== ", "amqp": "== ", "coap": "== ", "scenarios": "== ", "wamp": "# ", "stomp": "--- "}[folder]
	if !found {
		return nil
	}
	var all []shown
	parts := strings.Split("\n"+text, "\n"+mark)[1:]
	if folder == "stomp" && len(parts) > 1 {
		parts = []string{parts[0] + "\n" + strings.Join(parts[1:], "\n")}
	}
	for _, part := range parts {
		title, body, _ := strings.Cut(part, "\n")
		if items := itemsIn(title); len(items) > 0 {
			name := "`testdata/" + folder + "/" + file + "` " + plain(title)
			all = append(all, shown{place("testdata/" + folder + "/" + file), name, items, strings.TrimSpace(body) == ""})
		}
	}
	return all
}

// plain is a title without its clauses and faults.
func plain(title string) string {
	return strings.TrimSpace(strings.ReplaceAll(bracketed.ReplaceAllString(title, ""), "|", "/"))
}

// place is what the table's column "where" says of a test's file.
func place(path string) string {
	for _, p := range []struct{ prefix, where string }{
		{"adapters/mqtt/", "MQTT"}, {"testdata/mqtt/", "MQTT"},
		{"adapters/stomp/", "STOMP"}, {"testdata/stomp/", "STOMP"},
		{"adapters/wamp/", "WAMP"}, {"testdata/wamp/", "WAMP"},
		{"adapters/amqp/", "AMQP"}, {"testdata/amqp/", "AMQP"},
		{"adapters/coap/", "CoAP"}, {"testdata/coap/", "CoAP"},
		{"adapters/websocket", "WebSocket"}, {"adapters/origin", "WebSocket"}, {"adapters/upgrade", "WebSocket"},
		{"adapters/admin/", "HTTP"}, {"adapters/", "connections"},
		{"core/auth/", "rights"}, {"core/store/", "store"}, {"core/local/", "engine"}, {"core/", "core"},
		{"routing/", "names"}, {"conf/", "settings"},
	} {
		if strings.HasPrefix(path, p.prefix) {
			return p.where
		}
	}
	return "whole broker"
}
