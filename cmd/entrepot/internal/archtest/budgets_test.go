package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The usual budgets.
const (
	maxFileLines    = 500
	maxTestFile     = 600 // a file of tests, whose tables count too
	maxFuncLines    = 60
	maxTestLines    = 120 // a test function
	maxBranches     = 15
	maxTestBranches = 30
	maxMethods      = 5
	maxMeanLines    = 16 // under this, over a package's functions
	maxCoreExported = 112
	minTestRatio    = 1.2
	minCoreRatio    = 1.0 // until the store and the queues, which are young, have as many as the rest
)

// finding is one thing that is over a usual budget.
type finding struct {
	rule, what string
	at         int // line
	figure     int
	usual      int
}

// findings of a file, exceptions not regarded.
func (s *source) findings() []finding {
	var fs []finding
	over := func(rule, what string, at, figure, usual int) {
		if figure > usual {
			fs = append(fs, finding{rule, what, at, figure, usual})
		}
	}
	file, long, branched := maxFileLines, maxFuncLines, maxBranches
	if s.test {
		file, long, branched = maxTestFile, maxTestLines, maxTestBranches
	}
	over(fileLines, "", 1, s.lines, file)
	for _, f := range s.functions() {
		over(funcLines, funcName(f), s.line(f.Pos()), s.span(f), long)
		over(branches, funcName(f), s.line(f.Pos()), complexity(f), branched)
	}
	for name, i := range s.interfaces() {
		over(methods, name, s.line(i.Pos()), i.Methods.NumFields(), maxMethods)
	}
	for _, v := range s.variables() {
		over(variable, v.Name, s.line(v.Pos()), 1, 0)
	}
	for _, at := range s.sleeps() {
		over(sleeping, "", at, 1, 0)
	}
	return fs
}

// No file, function, interface is larger or more branched than its budget; no
// package has variables that change; no test sleeps.
func TestBudgets(t *testing.T) {
	for _, s := range sources(t) {
		for _, f := range s.findings() {
			where := s.pkg
			if f.what == "" {
				where = s.path
			}
			if most := limit(f.rule, where, f.what, f.usual); f.figure > most {
				t.Errorf("%s:%d: %s %s: %d, budget %d", s.path, f.at, f.rule, f.what, f.figure, most)
			}
		}
	}
}

// Exceptions for frame switches keep within their own budget.
func TestFrameSwitchBudget(t *testing.T) {
	for _, e := range exceptions() {
		if e.rule == funcLines && e.limit > switchLines && !strings.HasPrefix(e.what, "Test") || e.rule == branches && e.limit > switchBranches {
			t.Errorf("%s of %s.%s is let off up to %d", e.rule, e.where, e.what, e.limit)
		}
	}
}

// A package's functions are short on average.
func TestMeanFunction(t *testing.T) {
	lines, count := map[string]int{}, map[string]int{}
	for _, s := range code(t) {
		for _, f := range s.functions() {
			lines[s.pkg] += s.span(f)
			count[s.pkg]++
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		if mean := float64(lines[pkg]) / float64(count[pkg]); mean >= maxMeanLines {
			t.Errorf("%s: a function has %.1f lines on average, budget under %d", pkg, mean, maxMeanLines)
		}
	}
}

// core shows no more names than one can know. The values of an enumeration
// count with its type.
func TestCoreExportedNames(t *testing.T) {
	var names []string
	for _, s := range code(t) {
		if s.pkg == "core" {
			names = append(names, s.exported()...)
		}
	}
	if len(names) > maxCoreExported {
		t.Errorf("core exports %d names, budget %d: %s", len(names), maxCoreExported, strings.Join(names, " "))
	}
}

// core with its engines, and routing, have more lines of test than of code;
// the engine suite counts as test.
func TestEnoughTests(t *testing.T) {
	for _, top := range []string{"core", "routing"} {
		tests, lines := 0, 0
		for _, s := range sources(t) {
			switch {
			case !fits(top+"...", s.pkg) || s.exempt:
			case s.test || s.pkg == "core/enginetest":
				tests += s.lines
			default:
				lines += s.lines
			}
		}
		least := minTestRatio
		if top == "core" {
			least = minCoreRatio
		}
		if float64(tests) < least*float64(lines) {
			t.Errorf("%s: %d lines of tests for %d of code, budget %.1f times", top, tests, lines, least)
		}
	}
}

// exported names of a file; methods, fields and the values of enumerations not
// counted.
func (s *source) exported() []string {
	var names []string
	add := func(is ...*ast.Ident) {
		for _, i := range is {
			if i.IsExported() {
				names = append(names, i.Name)
			}
		}
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			add(declared(d)...)
		}
	}
	return names
}

// declared are the names of a declaration; of a group of constants with a type
// of their own, none.
func declared(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	enumeration := false
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name)
		case *ast.ValueSpec:
			if enumeration = enumeration || d.Tok == token.CONST && spec.Type != nil; !enumeration {
				names = append(names, spec.Names...)
			}
		}
	}
	return names
}

// interfaces that the file declares, by name.
func (s *source) interfaces() map[string]*ast.InterfaceType {
	found := map[string]*ast.InterfaceType{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				found[spec.Name.Name] = i
			}
		}
		return true
	})
	return found
}

// packageVars are the variables that the file declares at its top.
func (s *source) packageVars() []*ast.ValueSpec {
	var vars []*ast.ValueSpec
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, spec := range g.Specs {
				vars = append(vars, spec.(*ast.ValueSpec))
			}
		}
	}
	return vars
}
