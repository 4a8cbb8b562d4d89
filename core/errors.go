package core

import (
	"errors"
	"fmt"
)

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

// ErrWill is beside another kind where Connect refuses a will.
var ErrWill = errors.New("will")

// Difference says in what a declare differs from what is there. It wraps
// ErrConflict.
type Difference struct {
	// Property is durable, auto_delete, exclusive, internal or type, or the name
	// of an argument.
	Property string
	// Have and Want are the values there and in the declare: a bool, a text, or
	// for an argument what Headers hold, nil when it is not set.
	Have, Want any
}

// Error implements error.
func (d *Difference) Error() string {
	return fmt.Sprintf("%v: %s is %v, not %v", ErrConflict, d.Property, d.Have, d.Want)
}

// Unwrap implements errors.
func (d *Difference) Unwrap() error { return ErrConflict }

// ExchangeError is a refusal because of an exchange: what it wraps says why.
type ExchangeError struct {
	Exchange string
	Internal bool // clients do not publish to it
	Reserved bool // clients make none of that name
	Err      error
}

// Error implements error.
func (e *ExchangeError) Error() string {
	switch {
	case e.Internal:
		return fmt.Sprintf("exchange %q is internal: %v", e.Exchange, e.Err)
	case e.Reserved:
		return fmt.Sprintf("exchange %q: names that start with amq. or $ are reserved: %v", e.Exchange, e.Err)
	}
	return fmt.Sprintf("exchange %q: %v", e.Exchange, e.Err)
}

// Unwrap implements errors.
func (e *ExchangeError) Unwrap() error { return e.Err }

// NotEmpty is the ErrInUse of a queue that has messages.
type NotEmpty struct{ Messages int }

// Error implements error.
func (NotEmpty) Error() string { return ErrInUse.Error() }

// Unwrap implements errors.
func (NotEmpty) Unwrap() error { return ErrInUse }

// DiskError says in core's terms that the disk did not take something: an
// ErrFull whose text has the reason alone, as a disk that fails is not full.
// Nil stays nil, and what wraps ErrFull as it is.
func DiskError(err error) error {
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	return diskError{err}
}

type diskError struct{ error }

// Error implements error.
func (e diskError) Error() string { return "disk: " + e.error.Error() }

// Unwrap implements errors.
func (e diskError) Unwrap() []error { return []error{ErrFull, e.error} }
