package conf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile bounds what is read as a settings file, in bytes.
const maxFile = 1 << 20

// readFile changes c by a file. The error has a line for each fault, in the
// file's order.
func (c *Config) readFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("settings file: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("settings file %s: not a regular file", path)
	case info.Size() > maxFile:
		return fmt.Errorf("settings file %s: %d bytes, at most %d", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("settings file: %w", err)
	}
	return c.readText(path, text)
}

// readText is readFile for a text that has been read.
func (c *Config) readText(path string, text []byte) error {
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return fmt.Errorf("%s:%d:%d: %s", path, line, column, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	known := map[string]setting{}
	for _, s := range c.settings() {
		known[s.key()] = s
	}
	f := reader{known: known, lines: linesOf(text), path: path}
	f.table("", tree)
	slices.SortStableFunc(f.faults, func(a, b fault) int { return a.line - b.line })
	var errs []error
	for _, e := range f.faults {
		errs = append(errs, e.error)
	}
	return errors.Join(errs...)
}

// reader puts the values of a parsed file into the settings.
type reader struct {
	path   string
	known  map[string]setting
	lines  map[string]int
	faults []fault
}

type fault struct {
	line int
	error
}

func (r *reader) fault(key string, err error) {
	line := r.lines[key]
	r.faults = append(r.faults, fault{line, fmt.Errorf("%s:%d: %s: %w", r.path, line, key, err)})
}

func (r *reader) table(prefix string, t map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		key := prefix + name
		s, known := r.known[key]
		inner, isTable := t[name].(map[string]any)
		switch {
		case known:
			if err := s.set(t[name]); err != nil {
				r.fault(key, err)
			}
		case isTable && r.section(key):
			r.table(key+".", inner)
		case r.section(key):
			r.fault(key, errors.New("is a section, not a key"))
		default:
			r.fault(key, unknown(key, isTable, slices.Sorted(maps.Keys(r.known))))
		}
	}
}

// section tells whether there are keys under that name.
func (r *reader) section(name string) bool {
	for key := range r.known {
		if strings.HasPrefix(key, name+".") {
			return true
		}
	}
	return false
}

// linesOf finds the line where each key and section of a text first stands.
// The text has been parsed before and holds no error.
func linesOf(text []byte) map[string]int {
	lines := map[string]int{}
	p := unstable.Parser{}
	p.Reset(text)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		key := ""
		for keys := e.Key(); keys.Next(); {
			part := keys.Node()
			key += string(part.Data)
			full := key
			if e.Kind == unstable.KeyValue {
				full = table + key
			}
			if _, seen := lines[full]; !seen {
				lines[full] = p.Shape(part.Raw).Start.Line
			}
			key += "."
		}
		if e.Kind != unstable.KeyValue {
			table = key
		}
	}
	return lines
}
