package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// emptyWords name nothing; no package, file or type is called by one.
func emptyWords() []string {
	return []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "impl", "misc"}
}

// selectors are the uses "package.Name" of the given imports in a file, by
// the name that the package has there.
func (s *source) selectors(paths []string) map[string]bool {
	known := map[string]string{}
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		p = strings.TrimPrefix(p, module+"/")
		if !slices.Contains(paths, p) {
			continue
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		known[name] = path.Base(p)
	}
	uses := map[string]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && known[x.Name] != "" {
				uses[known[x.Name]+"."+sel.Sel.Name] = true
			}
		}
		return true
	})
	return uses
}

// goStatement is the line of the file's first go statement, 0 for none.
func (s *source) goStatement() int {
	at := 0
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok && at == 0 {
			at = s.line(g.Pos())
		}
		return true
	})
	return at
}

// sleeps are the lines where a test waits by the clock. In a file that uses
// testing/synctest the clock is the bubble's, and sleeping moves it on.
func (s *source) sleeps() []int {
	if !s.test {
		return nil
	}
	for _, i := range s.file.Imports {
		if i.Path.Value == `"testing/synctest"` {
			return nil
		}
	}
	var at []int
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Sleep" {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
			at = append(at, s.line(sel.Pos()))
		}
		return true
	})
	return at
}

// variables are the package variables that are neither a sentinel error, nor a
// table that is only read, nor the value of a type without fields, nor an
// embedded file, nor a blank check.
func (s *source) variables() []*ast.Ident {
	if s.test || s.exempt {
		return nil
	}
	var found []*ast.Ident
	for _, v := range s.packageVars() {
		for i, n := range v.Names {
			if n.Name == "_" || len(v.Values) == 0 && (embedded(s.file, v) || s.stateless(v.Type)) {
				continue
			}
			if i >= len(v.Values) || !s.constant(v.Values[i]) || s.assigns(n.Name) {
				found = append(found, n)
			}
		}
	}
	return found
}

// constant tells whether a variable's first value is one that need not change:
// an error, a literal that holds no lock, or what a function of the package
// returns by value.
func (s *source) constant(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.CompositeLit:
		return !strings.HasPrefix(dotted(x.Type), "sync.") && !strings.HasPrefix(dotted(x.Type), "atomic.")
	case *ast.UnaryExpr:
		return x.Op != token.AND && s.constant(x.X)
	case *ast.BinaryExpr:
		return s.constant(x.X) && s.constant(x.Y)
	case *ast.Ident, *ast.BasicLit:
		return true
	case *ast.CallExpr:
		return s.constantCall(x)
	}
	return false
}

func (s *source) constantCall(x *ast.CallExpr) bool {
	switch f := x.Fun.(type) {
	case *ast.ArrayType: // a conversion
		return true
	case *ast.FuncLit:
		return byValue(f.Type)
	case *ast.Ident:
		return s.returnsValue(f.Name)
	}
	return slices.Contains([]string{"errors.New", "fmt.Errorf", "regexp.MustCompile", "strings.NewReplacer"}, dotted(x.Fun))
}

// returnsValue tells whether a function of the file's package is there and
// returns no pointer.
func (s *source) returnsValue(name string) bool {
	all, err := tree()
	if err != nil {
		return false
	}
	for _, other := range all {
		for _, f := range other.functions() {
			if other.pkg == s.pkg && f.Recv == nil && f.Name.Name == name {
				return byValue(f.Type)
			}
		}
	}
	return false
}

// byValue tells whether a function's only result is a value that a table can
// be: no pointer, map, channel, function or interface that is written out.
func byValue(f *ast.FuncType) bool {
	if f.Results.NumFields() != 1 {
		return false
	}
	switch f.Results.List[0].Type.(type) {
	case *ast.Ident, *ast.ArrayType:
		return true
	}
	return false
}

func dotted(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

// stateless tells whether a type is one of the package's without any field.
func (s *source) stateless(e ast.Expr) bool {
	i, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	empty := false
	ast.Inspect(s.file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == i.Name {
			st, ok := spec.Type.(*ast.StructType)
			empty = ok && st.Fields.NumFields() == 0
		}
		return true
	})
	return empty
}

// embedded tells whether a variable's comment embeds a file.
func embedded(f *ast.File, v *ast.ValueSpec) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:embed ") && c.End() < v.Pos() && v.Pos()-c.End() < 8 {
				return true
			}
		}
	}
	return false
}

// assigns tells whether code of the file's package writes to a variable of the
// package: to it, or to something in it.
func (s *source) assigns(name string) bool {
	all, err := tree()
	if err != nil {
		return false
	}
	for _, other := range all {
		if other.pkg != s.pkg || other.test {
			continue
		}
		for _, f := range other.functions() {
			if writes(f, name) {
				return true
			}
		}
	}
	return false
}

// writes tells whether a function assigns to name and has no local of that name.
func writes(f *ast.FuncDecl, name string) bool {
	local, written := false, false
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			local = local || slices.ContainsFunc(x.Names, func(i *ast.Ident) bool { return i.Name == name })
		case *ast.ValueSpec:
			local = local || slices.ContainsFunc(x.Names, func(i *ast.Ident) bool { return i.Name == name })
		case *ast.RangeStmt:
			local = local || x.Tok == token.DEFINE && (root(x.Key) == name || root(x.Value) == name)
		case *ast.IncDecStmt:
			written = written || root(x.X) == name
		case *ast.AssignStmt:
			for _, l := range x.Lhs {
				if root(l) == name {
					local, written = local || x.Tok == token.DEFINE, written || x.Tok != token.DEFINE
				}
			}
		}
		return true
	})
	return written && !local
}

// root is the variable that an expression on the left side begins with.
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return ""
		}
	}
}

// Nothing happens by being imported.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, f := range s.functions() {
			if f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: init function", s.path, s.line(f.Pos()))
			}
		}
	}
}

// Packages, files and types are called by what they are.
func TestNames(t *testing.T) {
	for _, s := range sources(t) {
		file := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		for _, name := range append([]string{s.name, file}, s.types()...) {
			for _, w := range words(name) {
				if slices.Contains(emptyWords(), w) && !letOff(naming, s.pkg, name) {
					t.Errorf("%s: %s is named %q", s.path, name, w)
				}
			}
		}
	}
}

// types are the names of the types that a file declares.
func (s *source) types() []string {
	var names []string
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, spec := range g.Specs {
				names = append(names, spec.(*ast.TypeSpec).Name.Name)
			}
		}
	}
	return names
}

// words of a name in camel case or with underscores, in lower case.
func words(name string) []string {
	var all []string
	begin := 0
	cut := func(end int) {
		if end > begin {
			all = append(all, strings.ToLower(name[begin:end]))
		}
	}
	for i, r := range name {
		switch {
		case r == '_' || r == '-' || r == '.':
			cut(i)
			begin = i + 1
		case unicode.IsUpper(r):
			cut(i)
			begin = i
		}
	}
	cut(len(name))
	return all
}

func TestWords(t *testing.T) {
	for name, want := range map[string]string{
		"baseQueue": "base queue", "database": "database", "file_util": "file util", "BindSpec": "bind spec", "x": "x",
	} {
		if got := strings.Join(words(name), " "); got != want {
			t.Errorf("%s: words %q, want %q", name, got, want)
		}
	}
}

// Every package tells what it is, in one place.
func TestPackageComments(t *testing.T) {
	comments, packages := map[string]int{}, map[string]bool{}
	for _, s := range sources(t) {
		packages[s.pkg] = packages[s.pkg] || !s.test
		if s.file.Doc != nil && !s.test {
			comments[s.pkg]++
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		if n := comments[pkg]; packages[pkg] && n != 1 {
			t.Errorf("%s has %d package comments, want one", pkg, n)
		}
	}
}

// What a package shows carries a comment that begins with its name, or stands
// in a group that has one.
func TestExportedComments(t *testing.T) {
	for _, s := range code(t) {
		if s.name == "main" {
			continue
		}
		for _, f := range s.functions() {
			if f.Name.IsExported() && f.Recv == nil && f.Doc == nil {
				t.Errorf("%s:%d: %s has no comment", s.path, s.line(f.Pos()), f.Name.Name)
			}
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				ts := spec.(*ast.TypeSpec)
				if ts.Name.IsExported() && ts.Doc == nil && g.Doc == nil && ts.Comment == nil {
					t.Errorf("%s:%d: type %s has no comment", s.path, s.line(ts.Pos()), ts.Name.Name)
				}
			}
		}
	}
}
