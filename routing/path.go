package routing

// MaxSegment is the greatest length in bytes of one path segment (RFC 7252, 5.10).
const MaxSegment = 255

// PathSpelling is the spelling of CoAP paths: one Uri-Path or Location-Path option a level.
type PathSpelling struct{}

// Path writes a level as it is, except the whole levels "." and "..", which RFC 7252 forbids: %2E and %2E%2E. It has no
// filters.
var Path PathSpelling

// ParseTopic reads the segments of a path, in order, each at most MaxSegment bytes.
func (PathSpelling) ParseTopic(segments []string) (Topic, error) {
	w := writer{of: ErrTopic}
	at := 0
	for _, s := range segments {
		switch {
		case len(s) > MaxSegment:
			w.fail(FaultSegment)
		case pathLevels.raw(s) >= 0:
			w.fail(FaultCharacter)
		default:
			w.level(pathLevels.decoded(s))
		}
		if w.err != nil {
			return Topic{}, &TextError{Of: ErrTopic, Fault: w.err.Fault, Level: w.count, Byte: at}
		}
		at += len(s) + 1
	}
	return w.topic()
}

// PrintTopic writes the segments of a path; it refuses a level that needs more than MaxSegment bytes.
func (PathSpelling) PrintTopic(t Topic) ([]string, error) {
	if t.text == "" {
		return nil, &TextError{Of: ErrTopic, Fault: FaultEmpty, Byte: -1}
	}
	segments := t.Levels()
	for i, l := range segments {
		if l != "" && (l[0] == '%' || l[0] == '.') {
			segments[i] = string(pathLevels.encode(nil, l))
		}
		if len(segments[i]) > MaxSegment {
			return nil, &TextError{Of: ErrTopic, Fault: FaultSegment, Level: i, Byte: -1}
		}
	}
	return segments, nil
}
