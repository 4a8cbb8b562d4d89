package routing

import "unicode/utf8"

// MQTTSpelling is the spelling of MQTT topic names and topic filters (MQTT 5, 4.7), and the canonical text.
type MQTTSpelling struct{}

// MQTT separates with '/'; '+' is one level, '#' any levels and last. Inside a level '/', '+' and '#' are %2F, %2B, %23.
// The topic of one empty level, which MQTT cannot write, is %00.
var MQTT MQTTSpelling

var _ Spelling = MQTT

// ParseTopic reads a topic name: 1 to 65,535 bytes of well-formed UTF-8 without NUL, U+FFFF, '+' and '#' ([MQTT-3.3.2-2],
// [MQTT-4.7.3-1] to [MQTT-4.7.3-3]), 1 to 128 levels. It does not allocate.
func (MQTTSpelling) ParseTopic(text string) (Topic, error) {
	if fault, at := scanTopic(text); fault != 0 {
		return Topic{}, refuse(ErrTopic, fault, text, "/", at)
	}
	return Topic{text}, nil
}

// PrintTopic is the canonical text; it refuses the zero topic only.
func (MQTTSpelling) PrintTopic(t Topic) (string, error) {
	if t.text == "" {
		return "", &TextError{Of: ErrTopic, Fault: FaultEmpty, Byte: -1}
	}
	return t.text, nil
}

// ParseFilter reads a topic filter: as a topic name, with '+' as a whole level ([MQTT-4.7.1-2]) and '#' as the whole
// last level ([MQTT-4.7.1-1]). It does not allocate.
func (MQTTSpelling) ParseFilter(text string) (Filter, error) {
	if fault, at := scanFilter(text, false); fault != 0 {
		return Filter{}, refuse(ErrFilter, fault, text, "/", at)
	}
	return Filter{text: text}, nil
}

// PrintFilter is the canonical text; it refuses a filter with any-levels before the end.
func (MQTTSpelling) PrintFilter(f Filter) (string, error) {
	if f.text == "" {
		return "", &TextError{Of: ErrFilter, Fault: FaultEmpty, Byte: -1}
	}
	n := 0
	for l := openLevels(f.text); l.more; n++ {
		var segment string
		if segment, l = l.cut("/"); segment == "#" && l.more {
			return "", &TextError{Of: ErrFilter, Fault: FaultUnspellable, Level: n, Byte: -1}
		}
	}
	return f.text, nil
}

// scanTopic finds the first fault of a topic in canonical text and where it is; 0 when there is none.
func scanTopic(text string) (Fault, int) {
	if text == "" {
		return FaultEmpty, 0
	}
	if len(text) > MaxBytes {
		return FaultLong, MaxBytes
	}
	count, high := 1, byte(0)
	for i := range len(text) {
		c := text[i]
		high |= c
		if c > '/' {
			continue
		}
		switch c {
		case '/':
			if count++; count > MaxLevels {
				return FaultLevels, i
			}
		case '+', '#':
			return FaultWildcard, i
		case 0:
			return FaultNUL, i
		}
	}
	if high >= utf8.RuneSelf {
		return checkText(text)
	}
	return 0, 0
}

// scanFilter finds the first fault of a filter in canonical text. Any-levels may stand anywhere, twice, or last only.
func scanFilter(text string, anywhere bool) (Fault, int) {
	if text == "" {
		return FaultEmpty, 0
	}
	if len(text) > MaxBytes {
		return FaultLong, MaxBytes
	}
	count, hashes, high := 1, 0, byte(0)
	for i := range len(text) {
		c := text[i]
		high |= c
		switch c {
		case '/':
			if count++; count > MaxLevels {
				return FaultLevels, i
			}
		case '+', '#':
			if !wholeSegment(text, i) {
				return FaultWildcard, i
			}
			if c == '+' {
				continue
			}
			if hashes++; hashes > MaxAnyLevels || !anywhere && i+1 < len(text) {
				return FaultAnyLevels, i
			}
		case 0:
			return FaultNUL, i
		}
	}
	if high >= utf8.RuneSelf {
		return checkText(text)
	}
	return 0, 0
}

// wholeSegment tells whether the byte at i is a segment of its own.
func wholeSegment(text string, i int) bool {
	return (i == 0 || text[i-1] == '/') && (i+1 == len(text) || text[i+1] == '/')
}
