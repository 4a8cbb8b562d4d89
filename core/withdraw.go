package core

// Withdrawal is one thing of a session that has ended because its client may
// not have it any more: one field is set.
type Withdrawal struct {
	// Binding brought messages in, or calls. It is unbound already.
	Binding *BindSpec
	// Consumer was on a queue that the client named. It is cancelled already.
	Consumer Consumer
	// Registration is given up already.
	Registration *Registration
}
