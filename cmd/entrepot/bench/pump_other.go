//go:build !unix

package bench

// pump feeds the scanner with all that comes until the link fails or is
// interrupted, and returns why it ended.
func (l *link) pump(scan scanner) error {
	for {
		if err := l.feed(scan); err != nil {
			return err
		}
		n, err := l.conn.Read(l.in[l.held:])
		if l.held += n; err != nil {
			return closedAs(err)
		}
	}
}
