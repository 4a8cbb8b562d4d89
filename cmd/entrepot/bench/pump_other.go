//go:build !unix

package bench

// pump feeds the scanner with all that comes until the link fails or is
// interrupted, and returns why it ended.
func (l *link) pump(scan scanner) error { return l.pumpConn(scan) }
