package mqtt

import (
	"bytes"
	"context"
	"errors"

	"entrepot/core"
	"entrepot/core/auth"

	"github.com/mochi-mqtt/server/v2/packets"
)

// methodJWT is the authentication method (MQTT 5, 4.12) whose data is a JSON Web
// Token. The client brings it with CONNECT, and another one by AUTH before it
// expires; the broker has nothing to ask between.
const methodJWT = "JWT"

// method puts what a client brings by an authentication method in the place of
// the password; nothing without one. [MQTT-4.12.0-1]
func (c *conn) method(b *core.Broker, p *packets.Packet, proof *auth.Credentials) error {
	switch {
	case p.Properties.AuthenticationMethod == "":
		return nil
	case p.Properties.AuthenticationMethod != methodJWT || !b.Door().TakesTokens():
		return faultf(badAuthMethod, "no authentication method of that name is supported")
	}
	if len(p.Properties.AuthenticationData) == 0 {
		return fault{badLogIn, "an empty token"}
	}
	// The certificate stays: the settings may want it always.
	proof.Password = string(p.Properties.AuthenticationData)
	return nil
}

// authenticateAgain takes AUTH in the middle of a session (MQTT 5, 4.12.1): a new
// token, of the same user. While it is looked at nothing else of the client's is.
func (c *conn) authenticateAgain(b []byte) error {
	p, err := c.readAuth(b)
	switch {
	case err != nil:
		return err
	case !c.byToken: // [MQTT-4.12.0-7]
		return faultf(protocolError, "AUTH without an authentication method")
	case p.ReasonCode != byte(reauthenticate):
		return faultf(protocolError, "AUTH with the code %#02x", p.ReasonCode)
	case p.Properties.AuthenticationMethod != methodJWT: // [MQTT-4.12.1-1]
		return faultf(protocolError, "AUTH with another method than CONNECT")
	}
	if err := c.renew(string(p.Properties.AuthenticationData)); err != nil { // [MQTT-4.12.1-2]
		return err
	}
	answer := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Auth}}
	answer.Properties.AuthenticationMethod = methodJWT // [MQTT-4.12.0-5]
	c.send(answer, &c.batch)
	return nil
}

// renew proves a token and lets the session go on with it.
func (c *conn) renew(token string) error {
	c.batch.Flush()
	ctx, cancel := context.WithTimeout(context.Background(), c.server.cfg.Limits.LoginTimeout)
	defer cancel()
	proof := c.net.Credentials(protocolName)
	proof.ClientID, proof.User, proof.Password = c.clientID, c.session.Principal().User, token
	who, err := c.session.Broker().Authenticate(ctx, proof)
	if err == nil {
		err = c.session.Renew(who)
	}
	switch {
	case errors.Is(err, core.ErrNotAllowed):
		return fault{notAuthorized, "the token is not good for this session"}
	case err != nil:
		return fault{unavailable, err.Error()}
	}
	return nil
}

// readAuth reads AUTH (3.15); without anything its code is success.
func (c *conn) readAuth(b []byte) (*packets.Packet, error) {
	p := &packets.Packet{}
	if len(b) == 0 {
		return p, nil
	}
	p.ReasonCode = b[0]
	if len(b) == 1 {
		return p, nil
	}
	rest, err := c.checkProperties(packets.Auth, b[1:])
	switch {
	case err != nil:
		return p, err
	case len(rest) > 0:
		return p, errSurplus
	}
	if _, err := p.Properties.Decode(packets.Auth, bytes.NewBuffer(bytes.Clone(b[1:]))); err != nil {
		return p, faultf(malformed, "%v", err)
	}
	return p, nil
}
