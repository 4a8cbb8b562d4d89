package amqp

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The coverage table of the README says the truth: what it names is there, and
// every clause in a title has a row.
func TestCoverage(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	titles := titleClauses(t)
	tests := testNames(t)
	rows := map[string]bool{}
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " AMQP-") && !strings.HasPrefix(cells[1], " RabbitMQ-") {
			continue
		}
		clause := strings.TrimSpace(cells[1])
		rows[clause] = true
		for name := range strings.SplitSeq(strings.TrimSpace(cells[3]), ", ") {
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
	if len(rows) < 55 {
		t.Errorf("only %d rows", len(rows))
	}
}

// titleClauses finds the clauses in titles of transcripts: clause, then file.
func titleClauses(t *testing.T) map[string]map[string]bool {
	files, err := filepath.Glob("../../testdata/amqp/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^== .*$`).FindAllString(string(text), -1) {
			for _, c := range regexp.MustCompile(`\[((AMQP|RabbitMQ)-[\w.-]+)\]`).FindAllStringSubmatch(m, -1) {
				if found[c[1]] == nil {
					found[c[1]] = map[string]bool{}
				}
				found[c[1]][strings.TrimSuffix(filepath.Base(f), ".txt")] = true
			}
		}
	}
	return found
}

func testNames(t *testing.T) map[string]bool {
	found := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "frame/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`).FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = true
			}
		}
	}
	return found
}
