package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
)

const module = "entrepot"

// source is one parsed Go file of the repository.
type source struct {
	path    string // from the top of the repository, with slashes
	pkg     string // the folder, "." for the top
	name    string // of the package clause
	test    bool
	exempt  bool // under a testdata folder, where the go tool does not look
	lines   int
	file    *ast.File
	fileSet *token.FileSet
}

// tree is every Go file of the repository, parsed once for all tests.
var tree = sync.OnceValues(func() ([]*source, error) {
	top, err := topFolder()
	if err != nil {
		return nil, err
	}
	var all []*source
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		s, err := parse(top, path)
		all = append(all, s)
		return err
	})
	sort.Slice(all, func(i, j int) bool { return all[i].path < all[j].path })
	return all, err
})

func parse(top, path string) (*source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(top, path)
	if err != nil {
		return nil, err
	}
	rel = filepath.ToSlash(rel)
	s := &source{path: rel, pkg: "."}
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		s.pkg = rel[:i]
	}
	s.test = strings.HasSuffix(rel, "_test.go")
	s.exempt = strings.HasPrefix(rel, "testdata/") || strings.Contains(rel, "/testdata/")
	s.lines = bytes.Count(text, []byte("\n"))
	s.fileSet = token.NewFileSet()
	s.file, err = parser.ParseFile(s.fileSet, rel, text, parser.ParseComments)
	if err == nil {
		s.name = s.file.Name.Name
	}
	return s, err
}

// topFolder is the folder of go.mod, above the one that tests run in.
func topFolder() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", os.ErrNotExist
		}
		dir = up
	}
	return "", err
}

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	return all
}

// code is every file that is built into something: no tests, no testdata.
func code(t *testing.T) []*source {
	t.Helper()
	var kept []*source
	for _, s := range sources(t) {
		if !s.test && !s.exempt {
			kept = append(kept, s)
		}
	}
	return kept
}

func (s *source) line(p token.Pos) int { return s.fileSet.Position(p).Line }

// span is how many lines a node covers, its first and last included.
func (s *source) span(n ast.Node) int { return s.line(n.End()) - s.line(n.Pos()) + 1 }

// functions are the file's declared functions that have a body.
func (s *source) functions() []*ast.FuncDecl {
	var fs []*ast.FuncDecl
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			fs = append(fs, f)
		}
	}
	return fs
}

// name of a function as the exceptions spell it: Type.method or function.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}
