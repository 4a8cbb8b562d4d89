package amqp

import (
	"bytes"
	"cmp"
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
	proof     auth.Credentials
	who       auth.Principal
	realm     *core.Broker // that proved it
}

// user is who was proved; where nobody has to prove anything, who the client
// says it is.
func (l *login) user() string { return cmp.Or(l.who.User, l.proof.User) }

// mechanisms are the SASL mechanisms on offer.
func (c *conn) mechanisms() string {
	if c.certified() {
		return "PLAIN AMQPLAIN EXTERNAL"
	}
	return "PLAIN AMQPLAIN"
}

// certified tells whether the client's certificate can prove who it is.
func (c *conn) certified() bool {
	realm, _ := c.server.realms.Broker("/")
	return c.conn.Certificate() != nil && realm.Door().TakesCertificates()
}

// authenticate reads a SASL response and proves it to the default realm.
func (c *conn) authenticate(mechanism string, response []byte) error {
	c.login.mechanism = mechanism
	c.login.proof = c.conn.Credentials(protocol)
	proof := &c.login.proof
	proof.ClientID = c.client.name
	switch {
	case mechanism == "PLAIN":
		// RFC 4616: authorization identity, name, password; the first is passed over.
		parts := bytes.SplitN(response, []byte{0}, 3)
		if len(parts) != 3 {
			return c.loginRefused(nil)
		}
		proof.User, proof.Password = string(parts[1]), string(parts[2])
	case mechanism == "AMQPLAIN":
		r := frame.NewReader(response)
		table := r.Rest()
		name, _ := table.Get("LOGIN")
		password, _ := table.Get("PASSWORD")
		var ok1, ok2 bool
		proof.User, ok1 = name.(string)
		proof.Password, ok2 = password.(string)
		if r.End() != nil || !ok1 || !ok2 {
			return c.loginRefused(nil)
		}
	case mechanism == "EXTERNAL" && c.certified(): // RFC 4422, A: the answer may name somebody
		proof.User = string(response)
	default:
		return refuse(frame.CommandInvalid, "unknown authentication mechanism '%.40s'", mechanism)
	}
	realm, _ := c.server.realms.Broker("/")
	if err := c.prove(realm, *proof); err != nil {
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

// prove proves to a realm who the client is. It may take its time, which is this
// client's own.
func (c *conn) prove(realm *core.Broker, proof auth.Credentials) error {
	c.batch.Flush()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limits.LoginTimeout)
	defer cancel()
	who, err := realm.Authenticate(ctx, proof)
	if err != nil {
		return err
	}
	c.login.who, c.login.realm = who, realm
	return nil
}

// enter proves the client to the realm that it opens, where another one knows
// it so far.
func (c *conn) enter(realm *core.Broker) error {
	if c.login.realm != realm {
		if err := c.prove(realm, c.login.proof); err != nil {
			return refuse(frame.NotAllowed, "access to vhost '%s' refused for user '%s'", c.vhost, c.login.proof.User)
		}
	}
	c.login.proof.Password = ""
	return nil
}

// updateSecret takes a new password or token for the same user, whose session then
// goes on for as long as that is good (RabbitMQ's connection.update-secret).
func (c *conn) updateSecret(r *frame.Reader) error {
	secret := string(r.LongText())
	r.ShortText() // reason
	if err := r.End(); err != nil {
		return broken(frame.FrameError, "%v", err)
	}
	proof := c.login.proof
	proof.User, proof.Password, proof.Certificate = c.session.Principal().User, secret, nil
	err := c.prove(c.realm, proof)
	if err == nil {
		err = c.session.Renew(c.login.who)
	}
	if err != nil {
		return refuse(frame.NotAllowed, "New secret was refused by one of the backends")
	}
	c.reply(nil, frame.ConnectionUpdateSecretOK, nil)
	return nil
}
