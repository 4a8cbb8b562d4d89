// Package e2e holds the tests of the whole broker: scenario files, many and
// slow clients, and other people's clients. It has no code of its own.
//
// Scenarios lie in testdata/scenarios at the top of the repository and are
// explained in its README.md. They run against a broker in this process, its
// clients at the other end of a pipe, in a bubble with a clock of its own, so
// that "nothing more comes" is certain and waiting costs nothing. The clients
// are the tests' own and small: they show every property and header, and they
// share no codec with the broker.
//
//	go test ./cmd/entrepot/e2e -run TestScenarios -update   # rewrite what is expected
//
// TestRightsMatrix plays the table of rights, testdata/matrix.txt, with the same
// clients.
//
// TestKilled starts the built program, too, kills it under load and looks at
// what its clients were promised.
//
// Tests of other people's clients start the built program; their scripts lie
// in testdata/interop.
package e2e
