// Package coverage holds the coverage table of a front-end's README to the
// truth: what it names is there, and every clause in a title of a transcript
// has a row. For tests alone.
package coverage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Table is where a front-end has what its README's table speaks of. Paths are
// from the folder of the test.
type Table struct {
	// Row fits the first cell of the table's rows, which is a clause.
	Row *regexp.Regexp
	// Transcripts is a pattern of files; their titles are lines that begin with
	// "== " and name clauses in what Clause fits, as its first group.
	Transcripts string
	Clause      *regexp.Regexp
	// Tests are patterns of the files of Go tests.
	Tests []string
	// Open are beginnings of a last cell that names no test.
	Open []string
	// Least is how many clauses have a row.
	Least int
}

var (
	title = regexp.MustCompile(`(?m)^== .*$`)
	test  = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
)

// Check compares README.md with the transcripts and tests.
func (c Table) Check(t testing.TB) {
	t.Helper()
	titles, tests, rows := c.titles(t), c.tests(t), map[string]bool{}
	for line := range strings.Lines(read(t, "README.md")) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !c.Row.MatchString(cells[1]) {
			continue
		}
		clause := strings.TrimSpace(cells[1])
		rows[clause] = true
		for _, name := range c.names(strings.TrimSpace(cells[3])) {
			file, isFile := strings.CutPrefix(name, "`")
			if isFile && !titles[clause][strings.TrimSuffix(file, "`")] || !isFile && !tests[name] {
				t.Errorf("%s: no such test: %s", clause, name)
			}
		}
	}
	for clause := range titles {
		if !rows[clause] {
			t.Errorf("%s is in a title and has no row", clause)
		}
	}
	if len(rows) < c.Least {
		t.Errorf("only %d rows", len(rows))
	}
}

func (c Table) names(cell string) []string {
	for _, open := range c.Open {
		if strings.HasPrefix(cell, open) {
			return nil
		}
	}
	return strings.Split(cell, ", ")
}

// titles finds the clauses in titles of transcripts: clause, then file.
func (c Table) titles(t testing.TB) map[string]map[string]bool {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, f := range files(t, c.Transcripts) {
		for _, line := range title.FindAllString(read(t, f), -1) {
			for _, m := range c.Clause.FindAllStringSubmatch(line, -1) {
				if found[m[1]] == nil {
					found[m[1]] = map[string]bool{}
				}
				found[m[1]][strings.TrimSuffix(filepath.Base(f), ".txt")] = true
			}
		}
	}
	return found
}

func (c Table) tests(t testing.TB) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range c.Tests {
		for _, f := range files(t, pattern) {
			for _, m := range test.FindAllStringSubmatch(read(t, f), -1) {
				found[m[1]] = true
			}
		}
	}
	return found
}

func files(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
