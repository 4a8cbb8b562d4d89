package archtest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the last column of testdata/faults.md")

// listed stands between two tests in a cell.
const listed = "<br>"

// absent begins the last cell of a fault that the product cannot have.
const absent = "not in the product: "

// faultRow is one row of the table: an item at one place.
type faultRow struct {
	line         int
	item         int
	where        string
	fault, right string
	tests        string // as the last cell lists them
}

func (r faultRow) String() string {
	return fmt.Sprintf("| %d | %s | %s | %s | %s |", r.item, r.where, r.fault, r.right, r.tests)
}

// rowKey is an item at a place.
type rowKey struct {
	item  int
	where string
}

// faultItems are the numbers that have a row. They are not continuous.
func faultItems() []int {
	var items []int
	for n := 1; n <= lastItem; n++ {
		if !slices.Contains([]int{7, 18, 20, 25, 33, 41, 47, 53, 65, 73, 75, 79, 86, 90, 98}, n) {
			items = append(items, n)
		}
	}
	return items
}

// TestFaults holds testdata/faults.md to the tests: every item is there with
// what goes wrong and what is right; every test in the last column is there,
// is not empty and names the item as "fault 12"; a row without one says why the
// product cannot have the fault.
func TestFaults(t *testing.T) {
	top, err := topFolder()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(top, "testdata", "faults.md")
	lines, rows := readFaults(t, path)
	by := shownBy(t)
	if *update {
		lines = rewrite(lines, rows, by)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
		_, rows = readFaults(t, path)
	}
	checkItems(t, rows)
	for _, r := range rows {
		if reason, ok := strings.CutPrefix(r.tests, absent); ok && len(reason) > 10 {
			continue
		}
		for name := range strings.SplitSeq(r.tests, listed) {
			if !slices.Contains(by[rowKey{r.item, r.where}], name) {
				t.Errorf("fault %d, %s: no test %q names it (run with -update)", r.item, r.where, name)
			}
		}
	}
}

// rewrite lists in the last column of each row the tests that name its item,
// and adds rows for places that have none.
func rewrite(lines []string, rows []faultRow, by map[rowKey][]string) []string {
	missing := maps.Clone(by)
	for _, r := range rows {
		key := rowKey{r.item, r.where}
		delete(missing, key)
		if tests := by[key]; len(tests) > 0 {
			r.tests = strings.Join(tests, listed)
			lines[r.line] = r.String()
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(missing), func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.item, b.item), cmp.Compare(b.where, a.where))
	}) {
		lines = addRow(lines, faultRow{item: key.item, where: key.where, tests: strings.Join(missing[key], listed)})
	}
	return lines
}

// readFaults reads the table's rows.
func readFaults(t *testing.T, path string) (lines []string, rows []faultRow) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines = strings.Split(string(text), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		item, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue
		}
		if len(cells) != 7 {
			t.Fatalf("line %d: %d cells", i+1, len(cells))
		}
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		rows = append(rows, faultRow{i, item, cells[2], cells[3], cells[4], cells[5]})
	}
	return lines, rows
}

// checkItems wants every item once at a place, in order, with its texts in the
// first row.
func checkItems(t *testing.T, rows []faultRow) {
	t.Helper()
	var items []int
	seen := map[rowKey]bool{}
	for _, r := range rows {
		if key := (rowKey{r.item, r.where}); seen[key] {
			t.Errorf("fault %d has two rows for %s", r.item, r.where)
		} else {
			seen[key] = true
		}
		if len(items) > 0 && items[len(items)-1] == r.item {
			continue
		}
		items = append(items, r.item)
		if r.fault == "" || r.right == "" {
			t.Errorf("fault %d: its first row does not say what it is and what is right", r.item)
		}
	}
	if !slices.Equal(items, faultItems()) {
		t.Errorf("the table has the items %v, want %v", items, faultItems())
	}
}

// shownBy are the tests of each item at each place.
func shownBy(t *testing.T) map[rowKey][]string {
	t.Helper()
	by := map[rowKey][]string{}
	for _, s := range shownTests(t) {
		if s.empty {
			t.Errorf("%s names a fault and tests nothing", s.name)
		}
		for _, item := range s.items {
			key := rowKey{item, s.where}
			if !slices.Contains(by[key], s.name) {
				by[key] = append(by[key], s.name)
			}
		}
	}
	for _, names := range by {
		slices.Sort(names)
	}
	return by
}

// addRow puts a new row behind the last one of its item.
func addRow(lines []string, r faultRow) []string {
	at := -1
	for i, line := range lines {
		if strings.HasPrefix(line, fmt.Sprintf("| %d |", r.item)) {
			at = i
		}
	}
	if at < 0 {
		return append(lines, r.String())
	}
	return slices.Insert(lines, at+1, r.String())
}
