package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// Message is one message to send, or as it came.
type Message struct {
	Topic       string // STOMP: the destination
	Payload     []byte
	QoS         int // MQTT
	Retain      bool
	ContentType string   // not in MQTT 3.1.1
	Headers     []Header // MQTT 5: user properties
}

// Header is a name with its value.
type Header struct{ Name, Value string }

// Options say how to connect.
type Options struct {
	// ID is the MQTT client id; empty leaves it to the broker.
	ID string
	// Version is the MQTT version, 3.1.1 or 5.
	Version string
	// Expiry keeps the MQTT session for so long after the connection, and
	// resumes the one that was kept; 0 begins and leaves none.
	Expiry time.Duration
	// Host is STOMP's host header, which some brokers take as a virtual host.
	Host string
	// Socket is a unix socket to connect to instead of the URL's address.
	Socket string
	Trust
	// Prefetch is how many messages may be on their way unacknowledged; 0
	// leaves it to the broker. MQTT 3.1.1 cannot say it.
	Prefetch int
	// Timeout bounds connecting and each wait for the broker's answer.
	Timeout time.Duration
	// Note is told what the user should know and what is no error.
	Note func(string)
}

// Interest is what to subscribe to.
type Interest struct {
	Topics     []string
	QoS        int  // MQTT
	NoRetained bool // MQTT
	Headers    []Header
}

// Handler takes one message and tells whether it was the last.
type Handler func(Message) (done bool, err error)

// Conn is a connection. Its verbs are called by one goroutine.
type Conn interface {
	// Publish sends a message and, unless it is of QoS 0, waits until the
	// broker has taken it.
	Publish(ctx context.Context, m Message) error
	// Subscribe waits until the broker has granted all topics, calls granted,
	// and then calls handle for each message, which is acknowledged when handle
	// returned no error. It ends when handle says that it is done or fails, and
	// when the connection or ctx does.
	Subscribe(ctx context.Context, i Interest, granted func(), handle Handler) error
	// Close says good-bye and closes.
	Close() error
}

// ErrTimeout: the broker did not answer in time.
var ErrTimeout = errors.New("no answer in time")

// errClosed: the broker hung up without a word.
var errClosed = errors.New("the broker closed the connection")

// Dial connects and logs in.
func Dial(ctx context.Context, u URL, o Options) (Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("log-in: %w", ErrTimeout))
	defer cancel()
	network, address := "tcp", u.Address
	if o.Socket != "" {
		network, address = "unix", o.Socket
	}
	var secrets *tls.Config
	if u.TLS {
		var err error
		if secrets, err = o.Config(u.Address, u.Protocol); err != nil {
			return nil, err
		}
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("broker %s: nobody listens there", address)
	case err != nil:
		return nil, fmt.Errorf("broker: %w", err)
	}
	// Log-in ends with ctx, however little the broker says.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if secrets != nil {
		if nc, err = Handshake(ctx, nc, secrets); err != nil {
			return nil, fmt.Errorf("broker %s: %w", address, err)
		}
	}
	var c Conn
	if u.Protocol == MQTT {
		c, err = openMQTT(nc, u, o)
	} else {
		c, err = openSTOMP(nc, u, o)
	}
	if err != nil {
		_ = nc.Close() // the error that counts is the other
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("broker %s: %w", address, err)
	}
	return c, nil
}
