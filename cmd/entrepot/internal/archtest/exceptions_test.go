package archtest

import "testing"

// Names of the rules, for exceptions.
const (
	imports   = "import"
	fileLines = "lines a file"
	funcLines = "lines a function"
	branches  = "complexity"
	methods   = "methods an interface"
	variable  = "package variable"
	naming    = "name"
	sleeping  = "sleep in a test"
)

// exception lets one thing off one rule, up to a limit where the rule counts.
type exception struct {
	rule  string
	where string // the package, or the file for lines a file and sleeps
	what  string // function, interface, variable or import; "" for a file
	limit int
	why   string
}

// Frame switches in code may be longer than other functions, up to these figures.
const (
	switchLines    = 120
	switchBranches = 30
)

// exceptions is everything that is let off. One that nothing needs any more
// fails TestExceptionsAreNeeded.
func exceptions() []exception {
	return []exception{
		{methods, "core", "Engine", 12, "the plan's one large seam: what an engine does, checked by one suite"},
		{variable, "routing", "canonical", 1, "an alphabet: a table made by a constructor and only read"},
		{variable, "routing", "dottedTopic", 1, "an alphabet, as canonical"},
		{variable, "routing", "dottedFilter", 1, "an alphabet, as canonical"},
		{variable, "routing", "uriLevels", 1, "an alphabet, as canonical"},
		{variable, "routing", "pathLevels", 1, "an alphabet, as canonical"},
		{variable, "routing", "dottedTopics", 1, "a spelling's table, made by a constructor and only read"},
		{variable, "routing", "dottedFilters", 1, "a spelling's table, as dottedTopics"},
		{variable, "routing", "uriTopics", 1, "a spelling's table, as dottedTopics"},
		{variable, "routing", "uriPrefixes", 1, "a spelling's table, as dottedTopics"},
		{variable, "routing", "uriFilters", 1, "a spelling's table, as dottedTopics"},
		{branches, "adapters/stomp", "headerIDOf", 30, "a frame switch: header names, one a case"},
		{branches, "adapters/stomp", "messageHeaderID", 30, "a frame switch: header names, one a case"},
		{branches, "core", "appendValue", 30, "a codec's switch: value kinds, one a case"},
		{sleeping, "adapters/relay_test.go", "", 1, "a bench whose publisher, without queues, waits for room"},
	}
}

// letOff tells whether something may break a rule; used ones are noted.
func letOff(rule, where, what string) bool { return limit(rule, where, what, 0) > 0 }

// limit is the figure that holds for something: its exception's or the usual.
func limit(rule, where, what string, usual int) int {
	for _, e := range exceptions() {
		if e.rule == rule && e.where == where && e.what == what {
			return max(e.limit, usual, 1)
		}
	}
	return usual
}

// Each exception has a reason and is still needed.
func TestExceptionsAreNeeded(t *testing.T) {
	for _, e := range exceptions() {
		if e.why == "" {
			t.Errorf("%s %s of %s is let off without a reason", e.rule, e.what, e.where)
		}
		if !needed(t, e) {
			t.Errorf("%s: %s %s needs no exception any more", e.rule, e.where, e.what)
		}
	}
}

// needed tells whether the rule would be broken without the exception.
func needed(t *testing.T, e exception) bool {
	found := false
	for _, s := range sources(t) {
		if s.pkg != e.where && s.path != e.where {
			continue
		}
		for _, f := range s.findings() {
			found = found || f.rule == e.rule && f.what == e.what
		}
	}
	return found
}
