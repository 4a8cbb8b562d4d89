package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayImport is the house plan's table: a package of ours, and which packages
// of ours its code may import. The first pattern that fits a package counts.
func mayImport() []rule {
	return []rule{
		{"cmd/...", []string{"..."}},
		{"conf", []string{"core", "core/...", "adapters", "adapters/..."}},
		{"routing", nil},
		{"core", []string{"routing", "core/auth", "core/store"}},
		{"core/auth", []string{"routing"}},
		{"core/auth/authtest", []string{"core/auth"}},
		{"core/store", nil},
		{"core/local", []string{"routing", "core", "core/store"}},
		{"core/rabbit", []string{"routing", "core"}},
		{"core/enginetest", []string{"routing", "core"}},
		{"adapters", []string{"core", "core/auth"}},
		{"adapters/coverage", nil},
		{"adapters/amqp", []string{"routing", "core", "core/auth", "adapters", "adapters/amqp/frame"}},
		{"adapters/amqp/frame", []string{"routing"}},
		{"adapters/*", []string{"routing", "core", "core/auth", "adapters"}},
	}
}

// testsMayImport is what tests may import beside their package's own rule.
func testsMayImport() []rule {
	return []rule{
		{"core/...", []string{"core", "core/local", "core/enginetest", "routing"}},
		{"core", []string{"core/local", "core/enginetest"}},
		{"adapters...", []string{"core/auth/authtest", "core/local", "core/store", "adapters/coverage"}},
	}
}

// libraries says which packages know a library by name; a library that is not
// listed may be used by nobody.
func libraries() []rule {
	return []rule{
		{"github.com/mochi-mqtt/server/v2/packets", []string{"adapters/mqtt", "cmd/entrepot/internal/client"}},
		{"github.com/go-stomp/stomp/v3/frame", []string{"adapters/stomp", "cmd/entrepot/internal/client"}},
		{"github.com/go-stomp/stomp/v3", []string{"cmd/entrepot..."}},
		{"github.com/gammazero/nexus/v3/wamp", []string{"adapters/wamp"}},
		{"github.com/gorilla/websocket", []string{"adapters"}},
		{"github.com/plgd-dev/go-coap/v3/...", []string{"adapters/coap"}},
		{"github.com/pion/dtls/v3", []string{"adapters/coap", "cmd/entrepot/bench"}},
		{"github.com/fxamacker/cbor/v2", []string{"adapters/coap"}},
		{"github.com/cockroachdb/pebble/v2...", []string{"core/store"}},
		{"github.com/plus3it/gorecurcopy", []string{"core/store"}},
		{"github.com/pelletier/go-toml/v2...", []string{"conf"}},
		{"github.com/spf13/cobra", []string{"cmd/entrepot..."}},
		{"github.com/spf13/pflag", []string{"cmd/entrepot..."}},
		{"golang.org/x/crypto/...", []string{"core/auth"}},
		{"github.com/golang-jwt/jwt/v5", []string{"core/auth"}},
		{"golang.org/x/term", []string{"cmd/entrepot"}},
		{"github.com/prometheus/client_golang/...", []string{"adapters/admin", "cmd/entrepot..."}},
	}
}

// topLevel is what the product's owner lets lie at the top, beside dot files.
func topLevel() []string {
	return []string{"cmd", "core", "adapters", "routing", "conf", "testdata", "go.mod", "go.sum", "README.md", "LICENSE"}
}

// maxDirect is the budget of modules that the code itself imports: one a
// protocol's codec and those that the plan names.
const maxDirect = 15

type rule struct {
	who string
	may []string
}

// fits tells whether a package is meant by a pattern: itself, "x/*" for what
// lies directly under x, "x/..." for all under x, "x..." for x and all under
// it, "..." for everything.
func fits(pattern, pkg string) bool {
	if head, ok := strings.CutSuffix(pattern, "..."); ok {
		if head == "" || strings.HasSuffix(head, "/") {
			return strings.HasPrefix(pkg, head)
		}
		return pkg == head || strings.HasPrefix(pkg, head+"/")
	}
	if head, ok := strings.CutSuffix(pattern, "/*"); ok {
		rest, under := strings.CutPrefix(pkg, head+"/")
		return under && !strings.Contains(rest, "/")
	}
	return pattern == pkg
}

func find(rules []rule, pkg string) (rule, bool) {
	for _, r := range rules {
		if fits(r.who, pkg) {
			return r, true
		}
	}
	return rule{}, false
}

func (r rule) allows(pkg string) bool {
	return slices.ContainsFunc(r.may, func(p string) bool { return fits(p, pkg) })
}

// imports of a file: packages of ours without the module's name, and libraries.
func (s *source) imports() (ours, libs []string) {
	for _, i := range s.file.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(path, "/")
		switch {
		case path == module:
			ours = append(ours, ".")
		case first == module:
			ours = append(ours, strings.TrimPrefix(path, module+"/"))
		case strings.Contains(first, "."):
			libs = append(libs, path)
		}
	}
	return ours, libs
}

// Every import of a package of ours is in the house plan's table.
func TestImportTable(t *testing.T) {
	for _, s := range sources(t) {
		if s.exempt {
			continue
		}
		r, known := find(mayImport(), s.pkg)
		if !known {
			t.Errorf("%s: package %s is not in the import table", s.path, s.pkg)
			continue
		}
		more, _ := find(testsMayImport(), s.pkg)
		ours, _ := s.imports()
		for _, p := range ours {
			switch {
			case r.allows(p), s.test && (p == s.pkg || more.allows(p)):
			case letOff(imports, s.pkg, p):
			default:
				t.Errorf("%s imports %s, which the table does not allow", s.path, p)
			}
		}
	}
}

// conf composes the packages' settings and uses nothing else of them.
func TestConfUsesOnlySettings(t *testing.T) {
	for _, s := range code(t) {
		if s.pkg != "conf" {
			continue
		}
		ours, _ := s.imports()
		for use := range s.selectors(ours) {
			_, name, _ := strings.Cut(use, ".")
			if !strings.Contains(name, "Config") {
				t.Errorf("%s uses %s: conf knows only settings", s.path, use)
			}
		}
	}
}

// Each library is known to the packages that wrap it and to no others.
func TestLibraryTable(t *testing.T) {
	for _, s := range code(t) {
		_, libs := s.imports()
		for _, l := range libs {
			r, known := find(libraries(), l)
			if !known || !r.allows(s.pkg) {
				t.Errorf("%s imports %s, which the table of libraries does not allow", s.path, l)
			}
		}
	}
}

// The code imports no more modules than the budget says.
func TestDirectDependencies(t *testing.T) {
	modules := map[string]bool{}
	for _, s := range code(t) {
		_, libs := s.imports()
		for _, l := range libs {
			parts := strings.SplitN(l, "/", 4)
			modules[strings.Join(parts[:min(3, len(parts))], "/")] = true
		}
	}
	if len(modules) > maxDirect {
		t.Errorf("%d direct dependencies, budget %d: %v", len(modules), maxDirect, modules)
	}
}

// routing stays pure: no clock, no lock, no goroutine, no I/O, no log.
func TestRoutingIsPure(t *testing.T) {
	impure := []string{"context", "io", "io/fs", "log", "log/slog", "net", "os", "sync", "sync/atomic", "syscall"}
	for _, s := range code(t) {
		if s.pkg != "routing" {
			continue
		}
		for _, i := range s.file.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			if slices.Contains(impure, path) {
				t.Errorf("%s imports %s", s.path, path)
			}
		}
		for use := range s.selectors([]string{"time"}) {
			if slices.Contains([]string{"time.Now", "time.Since", "time.Until", "time.After", "time.AfterFunc",
				"time.Sleep", "time.NewTimer", "time.NewTicker", "time.Tick"}, use) {
				t.Errorf("%s uses %s", s.path, use)
			}
		}
		if at := s.goStatement(); at > 0 {
			t.Errorf("%s:%d starts a goroutine", s.path, at)
		}
	}
}

// Nothing lies at the top of the repository that its owner did not allow.
func TestTopLevelEntries(t *testing.T) {
	top, err := topFolder()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := os.ReadFile(filepath.Join(top, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	products := strings.Fields(string(ignored))
	for _, e := range entries {
		name := e.Name()
		built := slices.ContainsFunc(products, func(p string) bool {
			ok, err := filepath.Match(strings.Trim(p, "/"), name)
			return err == nil && ok
		})
		if !strings.HasPrefix(name, ".") && !built && !slices.Contains(topLevel(), name) {
			t.Errorf("%s lies at the top of the repository", name)
		}
	}
}

func TestPatternsFit(t *testing.T) {
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{"core", "core", true}, {"core", "core/auth", false},
		{"core/...", "core", false}, {"core/...", "core/auth", true},
		{"core...", "core", true}, {"core...", "core/auth", true}, {"core...", "corex", false},
		{"adapters/*", "adapters/mqtt", true}, {"adapters/*", "adapters", false}, {"adapters/*", "adapters/mqtt/x", false},
		{"...", "anything", true},
	} {
		if got := fits(c.pattern, c.pkg); got != c.want {
			t.Errorf("%s fits %s: %v", c.pattern, c.pkg, got)
		}
	}
}
