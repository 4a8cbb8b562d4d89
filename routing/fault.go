package routing

import (
	"errors"
	"strconv"
	"strings"
)

// Limits of every topic and filter, in any spelling.
const (
	// MaxLevels is the greatest number of levels of a topic, or of segments of a filter.
	MaxLevels = 128
	// MaxBytes is the greatest length of a canonical text.
	MaxBytes = 65535
	// MaxAnyLevels is the greatest number of any-levels segments in one filter.
	MaxAnyLevels = 2
)

// What a text was refused as. Every error of a spelling is a *[TextError] that wraps one of them.
var (
	// ErrTopic says that a text is not a topic, or that a spelling cannot write a topic.
	ErrTopic = errors.New("topic refused")
	// ErrFilter says that a text is not a filter, or that a spelling cannot write a filter.
	ErrFilter = errors.New("filter refused")
)

// Fault is the reason for which a text was refused.
type Fault uint8

// The reasons.
const (
	FaultEmpty        Fault = iota + 1 // no text, or no level
	FaultLong                          // canonical text over MaxBytes
	FaultLevels                        // over MaxLevels
	FaultUTF8                          // not well-formed UTF-8
	FaultNUL                           // U+0000
	FaultWildcard                      // a wildcard character where none may stand
	FaultAnyLevels                     // over MaxAnyLevels, or any-levels not last where it must be
	FaultCharacter                     // a character or level that this spelling must escape
	FaultSegment                       // a path segment over MaxSegment bytes
	FaultUnspellable                   // the spelling has no way to write this wildcard
	FaultNonCharacter                  // U+FFFF, for which an MQTT client may close
)

// String is a sentence part, fit for a client to read.
func (f Fault) String() string {
	switch f {
	case FaultEmpty:
		return "it is empty"
	case FaultLong:
		return "longer than " + strconv.Itoa(MaxBytes) + " bytes"
	case FaultLevels:
		return "more than " + strconv.Itoa(MaxLevels) + " levels"
	case FaultUTF8:
		return "not well-formed UTF-8"
	case FaultNUL:
		return "a NUL character"
	case FaultWildcard:
		return "a wildcard character where none is allowed"
	case FaultAnyLevels:
		return "an any-levels wildcard where none is allowed"
	case FaultCharacter:
		return "a character that must be escaped here"
	case FaultSegment:
		return "a path segment longer than " + strconv.Itoa(MaxSegment) + " bytes"
	case FaultUnspellable:
		return "a wildcard that this protocol cannot write"
	case FaultNonCharacter:
		return "the non-character U+FFFF"
	}
	return "fault " + strconv.Itoa(int(f))
}

// TextError says why a text was refused and where. It never repeats the text, which may be long and hostile.
type TextError struct {
	Of    error // ErrTopic or ErrFilter
	Fault Fault
	Level int // the level it was found in, from 0
	Byte  int // offset in the text that was read; -1 when a topic or filter could not be printed
}

// Error names the kind of text, the reason and the place.
func (e *TextError) Error() string {
	s := e.Of.Error() + ": " + e.Fault.String() + ", level " + strconv.Itoa(e.Level)
	if e.Byte >= 0 {
		s += ", byte " + strconv.Itoa(e.Byte)
	}
	return s
}

// Unwrap gives ErrTopic or ErrFilter.
func (e *TextError) Unwrap() error { return e.Of }

// refuse makes the error for a fault at byte i of text, whose levels are parted by sep.
func refuse(of error, fault Fault, text string, sep string, i int) error {
	return &TextError{Of: of, Fault: fault, Level: strings.Count(text[:i], sep), Byte: i}
}
