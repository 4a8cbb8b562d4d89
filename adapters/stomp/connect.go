package stomp

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"entrepot/adapters"
	"entrepot/core"
	"entrepot/core/auth"
)

// noVersion is the message of an ERROR to a client that speaks none of ours.
const noVersion = "no version in common"

// negotiate chooses the highest version that both speak (STOMP 1.2, Protocol
// Negotiation). A client that does not say speaks 1.0.
func negotiate(f *frame) (version, error) {
	if !f.has.holds(acceptVersionHeader) {
		return v10, nil
	}
	var best version
	for v := range bytes.SplitSeq(f.value(acceptVersionHeader), []byte{','}) {
		switch string(bytes.TrimSpace(v)) {
		case "1.0":
			best = max(best, v10)
		case "1.1":
			best = max(best, v11)
		case "1.2":
			best = max(best, v12)
		}
	}
	if best == 0 {
		return 0, &fault{message: noVersion, detail: "supported are 1.0, 1.1 and 1.2"}
	}
	return best, nil
}

// connect opens the session.
func (c *conn) connect(f *frame) error {
	if len(f.body) > 0 {
		return malformed("only SEND frames may have a body")
	}
	v, err := negotiate(f)
	if err != nil {
		return err
	}
	text := func(id headerID) string {
		if v == v10 {
			return strings.TrimSpace(f.text(id))
		}
		return f.text(id)
	}
	can, want := c.cfg.HeartBeatSend, c.cfg.HeartBeatReceive
	var theyCan, theyWant time.Duration
	if f.has.holds(heartBeatHeader) && v >= v11 {
		if theyCan, theyWant, err = parseHeartBeat(f.value(heartBeatHeader)); err != nil {
			return err
		}
	}
	realm, _ := c.server.realms.Broker(text(hostHeader))
	c.clientID = text(clientIDHeader)
	who, err := c.logIn(realm, text(loginHeader), text(passcodeHeader))
	if err != nil {
		return err
	}
	c.user = who.User
	session, _, err := realm.Connect(context.Background(), core.Hello{
		Protocol:  protocol,
		Principal: who,
		ClientID:  c.clientID,
		Remote:    c.conn.RemoteAddr(),
		Kick:      c.kicked,
		Withdrawn: c.withdrawn,
	})
	if err != nil {
		return err
	}
	c.session, c.lane = session, core.NewLane(&c.batch)
	c.unacked = adapters.NewUnacked(c.cfg.UnackedBytes, func() { session.Reached(core.LimitUnackedBytes) })
	c.frame.version = v
	c.frame.limits = limits{headers: c.cfg.MaxHeaders, headerBytes: c.cfg.MaxHeaderBytes,
		body: min(c.cfg.MaxBody, realm.MaxMessage())}
	c.conn.OnRoom(c.resume)
	// Twice the interval, for networks and for the wheel.
	c.conn.LoggedIn(c.cfg.MaxHeaderBytes+c.cfg.MaxBody+1, 2*beat(theyCan, want))
	c.conn.Pace(func() (time.Duration, bool) { return c.session.Pace(c.durableSessions) })
	c.sendConnected(v)
	if every := beat(can, theyWant); every > 0 {
		c.heartBeat.Start(c.conn, every, []byte{'\n'}, c.written)
	}
	return nil
}

// logIn proves the login by the passcode. It may take its time, which is this client's
// own.
func (c *conn) logIn(realm *core.Broker, login, passcode string) (auth.Principal, error) {
	c.batch.Flush()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Limits.LoginTimeout)
	defer cancel()
	proof := c.conn.Credentials(protocol)
	proof.ClientID, proof.User, proof.Password = c.clientID, login, passcode
	who, err := realm.Authenticate(ctx, proof)
	if errors.Is(err, core.ErrNotAllowed) {
		err = &fault{message: "access refused", detail: "login or passcode is wrong", cause: err}
	}
	return who, err
}

// sendConnected writes no escapes, as 1.0 clients read this frame too.
func (c *conn) sendConnected(v version) {
	buf := c.conn.Outbox.BeginAnswer()
	c.spoken = v
	buf = append(buf, "CONNECTED\nversion:"...)
	buf = append(buf, v.String()...)
	buf = append(buf, "\nheart-beat:"...)
	buf = appendInt(buf, int(c.cfg.HeartBeatSend.Milliseconds()))
	buf = append(buf, ',')
	buf = appendInt(buf, int(c.cfg.HeartBeatReceive.Milliseconds()))
	buf = append(buf, "\nserver:Entrepot\nsession:session-"...)
	buf = strconv.AppendUint(buf, uint64(c.session.ID()), 10)
	buf = append(buf, "\n\n\x00"...)
	c.writes++
	c.conn.Outbox.End(&c.batch, buf)
}
