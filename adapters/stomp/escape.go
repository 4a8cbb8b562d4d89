package stomp

import "bytes"

// escapesKnown tells whether every backslash in line begins an escape of the version
// (STOMP 1.2, Value Encoding: others are a fatal protocol error).
func escapesKnown(line []byte, v version) bool {
	for i := 0; i < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		if i++; i == len(line) {
			return false
		}
		switch line[i] {
		case 'n', 'c', '\\':
		case 'r':
			if v != v12 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// unescape decodes what escapesKnown took.
func unescape(b []byte) string {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			i++
			switch b[i] {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 'c':
				c = ':'
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// appendValue writes a header's name or value as the version can carry it: escaped,
// and what has no escape replaced, so that no value can end its line or the headers.
func (v version) appendValue(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == 0:
			dst = append(dst, "\uFFFD"...)
		case c == '\n' && v >= v11:
			dst = append(dst, `\n`...)
		case c == '\r' && v == v12:
			dst = append(dst, `\r`...)
		case c == '\n' || c == '\r':
			dst = append(dst, ' ')
		case c == ':' && v >= v11:
			dst = append(dst, `\c`...)
		case c == '\\' && v >= v11:
			dst = append(dst, `\\`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// carriesName tells whether the version can write a header of that name so that the
// client reads the same name.
func (v version) carriesName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c == 0 || v < v12 && c == '\r' || v < v11 && (c == '\n' || c == ':') {
			return false
		}
	}
	return v >= v11 || len(bytes.TrimSpace([]byte(name))) == len(name)
}

// appendHeader writes one header line, its end before it, so that the caller ends the
// last line itself.
func (v version) appendHeader(dst []byte, name, value string) []byte {
	dst = append(dst, '\n')
	dst = v.appendValue(dst, name)
	dst = append(dst, ':')
	return v.appendValue(dst, value)
}
