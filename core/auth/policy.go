// Package auth says who a client is and what it may do: one policy for every
// protocol, decided on canonical names only, never on a protocol's spelling.
//
// credentials.go is what a client brings, door.go decides who that is. It asks
// users.go for names and passwords (userfile.go reads the file that they stand
// in, useredit.go edits it, account.go is a line of it, hash.go and mosquitto.go
// know what stands there of a password, cra.go the keys of WAMP-CRA), token.go
// for JSON Web Tokens (signer.go and mint.go make them, for a command), certificate.go
// for TLS certificates. backoff.go slows down
// those who guess. policy.go is what the core asks then, rules.go decides by
// rules, which rulefile.go reads and pattern.go matches, rights.go by those
// and by the lists of the settings, which are config.go. smallfile.go reads all
// their files. audit.go is the line that the log gets of log-ins and of what
// operators do.
package auth

import "time"

// Principal is who acts: what a client proved at log-in.
type Principal struct {
	User     string // "" for an anonymous client
	ClientID string
	Groups   []string
	// Until is when what it proved ends; the zero Time is never.
	Until time.Time
	// Limits are the user's own.
	Limits Limits

	by      method
	account mark // of the user's line; zero: there was none
	key     mark // of the key or rule that proved it
}

// Action is what a principal wants to do.
type Action uint8

const (
	Publish Action = iota
	Subscribe
	Consume
	Declare
	Call
	Register
	Admin
)

// String is the action's name in rules, logs and errors.
func (a Action) String() string {
	return [...]string{"publish", "subscribe", "consume", "declare", "call", "register", "admin"}[a]
}

// ObjectKind says what an Object's Name is.
type ObjectKind uint8

const (
	Topic    ObjectKind = iota // a topic or filter of amq.topic, canonical text
	Queue                      // a queue's name
	Exchange                   // an exchange's name
	Procedure
)

// Object is what is acted upon.
type Object struct {
	Kind ObjectKind
	Name string
	// Whole asks of a filter whether all of it may be had. Without it a filter
	// may be had of which a part is denied, whose topics are then asked about
	// one by one. A queue without a name is, with it, every queue.
	Whole bool
	// Own asks whether it is, beside all else, the client's own: given to it by a
	// rule about its name.
	Own bool
}

// Policy decides. It returns nil to allow, else a sentence for the log that
// clients do not see. It may be called from any goroutine and under locks: it
// is quick, and calls nothing back. The nil Policy allows everything.
type Policy func(Principal, Action, Object) error

// Check asks the policy.
func (p Policy) Check(who Principal, a Action, o Object) error {
	if p == nil {
		return nil
	}
	return p(who, a, o)
}
