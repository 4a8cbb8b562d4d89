package amqp

import (
	"bytes"
	"context"
	"errors"

	"entrepot/adapters/amqp/frame"
	"entrepot/core"
	"entrepot/core/auth"
)

// errUntold ends a connection whose client failed to log in and does not know
// connection.close at that point (RabbitMQ, authentication_failure_close).
var errUntold = errors.New("log-in refused")

// login is who the client says it is and, once that is proven, who it is.
type login struct {
	mechanism string
	name      string
	password  string
	who       auth.Principal
	realm     *core.Broker // that proved it
}

// mechanisms are the SASL mechanisms on offer.
func (c *conn) mechanisms() string {
	if c.server.External != nil {
		return "PLAIN AMQPLAIN EXTERNAL"
	}
	return "PLAIN AMQPLAIN"
}

// authenticate reads a SASL response and proves it to the default realm.
func (c *conn) authenticate(mechanism string, response []byte) error {
	c.login.mechanism = mechanism
	switch {
	case mechanism == "PLAIN":
		// RFC 4616: authorization identity, name, password; the first is passed over.
		parts := bytes.SplitN(response, []byte{0}, 3)
		if len(parts) != 3 {
			return c.loginRefused(nil)
		}
		c.login.name, c.login.password = string(parts[1]), string(parts[2])
	case mechanism == "AMQPLAIN":
		r := frame.NewReader(response)
		table := r.Rest()
		name, _ := table.Get("LOGIN")
		password, _ := table.Get("PASSWORD")
		var ok1, ok2 bool
		c.login.name, ok1 = name.(string)
		c.login.password, ok2 = password.(string)
		if r.End() != nil || !ok1 || !ok2 {
			return c.loginRefused(nil)
		}
	case mechanism == "EXTERNAL" && c.server.External != nil:
		return c.external()
	default:
		return refuse(frame.CommandInvalid, "unknown authentication mechanism '%.40s'", mechanism)
	}
	realm, _ := c.server.realms.Broker("/")
	if err := c.prove(realm, c.login.password); err != nil {
		return c.loginRefused(err)
	}
	return nil
}

func (c *conn) loginRefused(cause error) error {
	if errors.Is(cause, core.ErrTimeout) {
		return &fault{code: frame.ResourceError, text: "log-in timed out", cause: cause}
	}
	f := refuse(frame.AccessRefused, "Login was refused using authentication mechanism %s. "+
		"For details see the broker logfile.", c.login.mechanism).(*fault)
	f.cause = cause
	return f
}

// prove proves the password to a realm. It may take its time, which is this
// client's own.
func (c *conn) prove(realm *core.Broker, password string) error {
	c.batch.Flush()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limits.LoginTimeout)
	defer cancel()
	who, err := realm.Authenticate(ctx, auth.Credentials{Protocol: protocol, User: c.login.name, Password: password})
	if err != nil {
		return err
	}
	c.login.who, c.login.realm = who, realm
	return nil
}

func (c *conn) external() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limits.LoginTimeout)
	defer cancel()
	who, err := c.server.External(ctx, c.conn.Carrier())
	if err != nil {
		return c.loginRefused(err)
	}
	c.login.name, c.login.who = who.User, who
	return nil
}

// enter proves the client to the realm that it opens, where another one knows
// it so far.
func (c *conn) enter(realm *core.Broker) error {
	if c.login.realm != nil && c.login.realm != realm {
		if err := c.prove(realm, c.login.password); err != nil {
			return refuse(frame.NotAllowed, "access to vhost '%s' refused for user '%s'", c.vhost, c.login.name)
		}
	}
	c.login.password = ""
	return nil
}

// updateSecret takes a new password for the same name (RabbitMQ's
// connection.update-secret).
func (c *conn) updateSecret(r *frame.Reader) error {
	secret := string(r.LongText())
	r.ShortText() // reason
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	if c.login.realm != nil {
		if err := c.prove(c.realm, secret); err != nil {
			return refuse(frame.NotAllowed, "New secret was refused by one of the backends")
		}
	}
	c.reply(nil, frame.ConnectionUpdateSecretOK, nil)
	return nil
}
