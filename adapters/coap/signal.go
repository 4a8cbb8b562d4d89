package coap

import (
	"fmt"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// Signals are messages about a stream itself (RFC 8323, 5). Their options have
// numbers of their own.
const (
	signalClass = 7

	optionMaxMessageSize = message.OptionID(2) // of CSM
	optionBlockWise      = message.OptionID(4) // of CSM
	optionCustody        = message.OptionID(2) // of Ping and Pong
	optionBadCSMOption   = message.OptionID(2) // of Abort
)

// baseMessageSize is the largest message of a client that did not say (RFC 8323,
// 5.3.1).
const baseMessageSize = 1152

// minMessageSize is the least that a client must take: an answer with its
// options and a few bytes.
const minMessageSize = 64

// abortion is an error that the client is told of by an Abort, which ends the
// stream (RFC 8323, 5.6).
type abortion struct {
	text string
	// option is that of a CSM which cannot be processed, if any.
	option message.OptionID
}

func (a *abortion) Error() string { return a.text }

func abort(format string, args ...any) error { return &abortion{text: fmt.Sprintf(format, args...)} }

// packet is the Abort that tells of it.
func (a *abortion) packet() *outgoingPacket {
	m := &outgoingPacket{code: codes.Abort, payload: diagnostic(a.text)}
	if a.option != 0 {
		m.options = m.options.Add(message.Option{ID: optionBadCSMOption, Value: uintBytes(uint32(a.option))})
	}
	return m
}

// abilities are what a client said that it can do (RFC 8323, 5.3). They hold until
// it says otherwise.
type abilities struct {
	maxMessage uint32
	blockWise  bool
}

// take reads a CSM.
func (a *abilities) take(options message.Options) error {
	next := *a
	for _, o := range options {
		switch o.ID {
		case optionMaxMessageSize:
			if len(o.Value) > 4 || uintOf(o.Value) < minMessageSize {
				return &abortion{text: fmt.Sprintf("Max-Message-Size: %d at least, in 4 bytes", minMessageSize), option: o.ID}
			}
			next.maxMessage = uintOf(o.Value)
		case optionBlockWise:
			next.blockWise = true // a value would say nothing
		default:
			if o.ID&1 == 1 {
				return &abortion{text: fmt.Sprintf("CSM option %d is critical and not known", o.ID), option: o.ID}
			}
		}
	}
	*a = next
	return nil
}

// bert tells whether the client takes BERT blocks (RFC 8323, 5.3.2).
func (a *abilities) bert() bool { return a.blockWise && a.maxMessage > baseMessageSize }

// csm is what the broker says of itself.
func csm(maxMessage int) *outgoingPacket {
	m := &outgoingPacket{code: codes.CSM}
	m.options = m.options.Add(message.Option{ID: optionMaxMessageSize, Value: uintBytes(uint32(maxMessage))})
	m.options = m.options.Add(message.Option{ID: optionBlockWise})
	return m
}

// checkSignal refuses options of a signal that are critical: there are none
// (RFC 8323, 5.2).
func checkSignal(options message.Options) error {
	for _, o := range options {
		if o.ID&1 == 1 {
			return abort("option %d of a signal is critical and not known", o.ID)
		}
	}
	return nil
}

// hasOption tells whether an option is there.
func hasOption(options message.Options, id message.OptionID) bool {
	for _, o := range options {
		if o.ID == id {
			return true
		}
	}
	return false
}

// custody says that all requests before are done (RFC 8323, 5.4.1).
func custody() message.Option { return message.Option{ID: optionCustody} }
