//go:build !race

package routing

const slow = 1
