//go:build !unix

package main

// mostConnections is not known here.
func mostConnections() int { return 0 }
