// Package archtest holds the tests that keep the house in order: which package
// may import which, what lies at the top of the repository, and how large a
// file, a function, an interface or a package may grow. It has no code of its
// own. The rules are in imports_test.go, budgets_test.go, style_test.go; what
// is let off, with a reason each, is in exceptions_test.go.
package archtest
