package core

import "errors"

// The kinds of refusal. Everything that core and an engine return wraps one of
// them (test with errors.Is) and adds a sentence that names the noun. An
// adapter maps the kinds to its protocol's codes in one table.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("exists with other properties")
	ErrLocked      = errors.New("held by another session")
	ErrInUse       = errors.New("in use")
	ErrNotAllowed  = errors.New("not allowed")
	ErrFull        = errors.New("full")
	ErrTooLarge    = errors.New("too large")
	ErrInvalid     = errors.New("invalid")
	ErrUnsupported = errors.New("not supported")
	ErrTimeout     = errors.New("timed out")
	ErrClosed      = errors.New("closed")
)
