package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// complexity is McCabe's figure: one, and one more for each place where the
// path divides: if, for, range, a case that is not the default, && and ||.
// Function literals count where they stand.
func complexity(n ast.Node) int {
	sum := 1
	ast.Inspect(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			sum++
		case *ast.CaseClause:
			if x.List != nil {
				sum++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				sum++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				sum++
			}
		}
		return true
	})
	return sum
}

func TestComplexityCounts(t *testing.T) {
	for _, c := range []struct {
		body string
		want int
	}{
		{``, 1},
		{`x()`, 1},
		{`if a { x() }`, 2},
		{`if a && b || c { x() } else { y() }`, 4},
		{`if a { x() } else if b { y() }`, 3},
		{`for { x() }`, 2},
		{`for range 3 { x() }`, 2},
		{`switch v { case 1, 2: x(); case 3: y(); default: z() }`, 3},
		{`select { case <-c: x(); default: y() }`, 2},
		{`switch v.(type) { case int: x() }`, 2},
		{`f := func() { if a { x() } }; f()`, 2},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {"+c.body+"}", 0)
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		if got := complexity(file.Decls[0]); got != c.want {
			t.Errorf("%s: complexity %d, want %d", c.body, got, c.want)
		}
	}
}
