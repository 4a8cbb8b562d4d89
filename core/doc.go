// Package core is the broker without protocols. Adapters see a Broker (one
// realm), open a Session for each client, and use its verbs: declare, bind,
// consume, publish, settle. What arrives is a Delivery, pushed to a Receiver,
// which answers with a Verdict. Rights and owners are checked here, at every
// verb, and only here.
//
// Everything that routes is an exchange, everything that receives is a queue,
// a subscription is a binding; an Engine keeps them. Sessions with their
// take-overs and wills, retained messages, shared subscriptions and the order
// of confirms are this package's own.
package core
