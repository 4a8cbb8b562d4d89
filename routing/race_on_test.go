//go:build race

package routing

// slow divides the number of random cases: the race detector makes each about ten times as dear.
const slow = 8
