package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-stomp/stomp/v3/frame"
)

// stompConn is a Conn that speaks STOMP.
type stompConn struct {
	*line[*frame.Frame]
	in      *frame.Reader
	version string
	quiet   time.Duration // how long the broker may say nothing; 0 is for ever
	beat    time.Duration // how often it wants to hear us; 0 is never
	lastID  int
	// prefetch is for subscriptions, 0 for the broker's.
	prefetch int
}

func openSTOMP(nc net.Conn, u URL, o Options) (Conn, error) {
	c := &stompConn{line: newLine[*frame.Frame](nc, o.Timeout), in: frame.NewReader(nc), prefetch: o.Prefetch}
	hello := frame.New(frame.CONNECT, frame.AcceptVersion, "1.0,1.1,1.2", frame.Host, o.Host,
		frame.HeartBeat, beats(keepAlive, keepAlive))
	if u.User != "" {
		hello.Header.Add(frame.Login, u.User)
	}
	if u.User != "" || u.Password != "" { // a token says by itself whose it is
		hello.Header.Add(frame.Passcode, u.Password)
	}
	// CONNECT knows no escapes (STOMP 1.2, Value Encoding).
	for i := range hello.Header.Len() {
		if _, v := hello.Header.GetAt(i); strings.ContainsAny(v, "\r\n\x00") {
			return nil, errors.New("a line break in host, user or password")
		}
	}
	if err := c.send(plain(hello)); err != nil {
		return nil, err
	}
	if err := c.accepted(); err != nil {
		return nil, err
	}
	c.start(c.read, c.beat/2, func() error { return c.send([]byte{'\n'}) })
	return c, nil
}

func beats(send, want time.Duration) string {
	return strconv.FormatInt(send.Milliseconds(), 10) + "," + strconv.FormatInt(want.Milliseconds(), 10)
}

// plain writes a frame without escapes.
func plain(f *frame.Frame) []byte {
	var b bytes.Buffer
	b.WriteString(f.Command + "\n")
	for i := range f.Header.Len() {
		name, value := f.Header.GetAt(i)
		b.WriteString(name + ":" + value + "\n")
	}
	b.WriteString("\n")
	b.Write(f.Body)
	b.WriteByte(0)
	return b.Bytes()
}

// accepted reads the CONNECTED.
func (c *stompConn) accepted() error {
	f, err := c.in.Read()
	for err == nil && f == nil {
		f, err = c.in.Read()
	}
	switch {
	case errors.Is(err, frame.ErrInvalidCommand), errors.Is(err, frame.ErrInvalidFrameFormat):
		return errors.New("answers a CONNECT with something else: not a STOMP broker?")
	case err != nil:
		return closed(err)
	case f.Command == frame.ERROR:
		return fmt.Errorf("connection refused: %w", said(f))
	case f.Command != frame.CONNECTED:
		return fmt.Errorf("answers a CONNECT with %s", f.Command)
	}
	if c.version = f.Header.Get(frame.Version); c.version == "" {
		c.version = "1.0"
	}
	send, want, err := heartBeat(f.Header.Get(frame.HeartBeat))
	if err != nil {
		return err
	}
	if want > 0 {
		c.beat = max(want, keepAlive)
	}
	if send > 0 {
		c.quiet = max(send, keepAlive) + c.timeout
	}
	return nil
}

// heartBeat reads a heart-beat header; none is 0,0.
func heartBeat(text string) (send, want time.Duration, err error) {
	if text == "" {
		return 0, 0, nil
	}
	send, want, err = frame.ParseHeartBeat(text)
	if err != nil {
		return 0, 0, fmt.Errorf("the broker's heart-beat header %q: %w", text, err)
	}
	return send, want, nil
}

// said is what an ERROR frame says.
func said(f *frame.Frame) error {
	text := f.Header.Get(frame.Message)
	if body := strings.TrimSpace(string(f.Body)); body != "" && body != text {
		text = strings.TrimPrefix(text+": "+body, ": ")
	}
	if text == "" {
		text = "ERROR without a reason"
	}
	return errors.New(text)
}

// read handles one frame, on the reader's goroutine.
func (c *stompConn) read() error {
	if c.quiet > 0 {
		if err := c.conn.SetReadDeadline(time.Now().Add(c.quiet)); err != nil {
			return err
		}
	}
	f, err := c.in.Read()
	switch {
	case err != nil:
		return closed(err)
	case f == nil: // a heart-beat
	case f.Command == frame.MESSAGE:
		c.message(f)
	case f.Command == frame.ERROR:
		return fmt.Errorf("the broker ended the connection: %w", said(f))
	case f.Command == frame.RECEIPT:
		c.answer(f)
	}
	return nil
}

// put sends a frame with the escapes of the version.
func (c *stompConn) put(f *frame.Frame) error {
	if c.version == "1.0" {
		return c.send(plain(f))
	}
	var b bytes.Buffer
	if err := frame.NewWriter(&b).Write(f); err != nil {
		return err
	}
	return c.send(b.Bytes())
}

// ask sends a frame and waits for its receipt.
func (c *stompConn) ask(ctx context.Context, f *frame.Frame) error {
	c.lastID++
	id := strconv.Itoa(c.lastID)
	f.Header.Set(frame.Receipt, id)
	if err := c.put(f); err != nil {
		return err
	}
	for {
		r, err := c.await(ctx, f.Command)
		if err != nil {
			return err
		}
		if r.Header.Get(frame.ReceiptId) == id {
			return nil
		}
	}
}

// Publish implements Conn.
func (c *stompConn) Publish(ctx context.Context, m Message) error {
	f := frame.New(frame.SEND, frame.Destination, m.Topic, frame.ContentLength, strconv.Itoa(len(m.Payload)))
	f.Body = m.Payload
	if m.ContentType != "" {
		f.Header.Set(frame.ContentType, m.ContentType)
	}
	if m.Retain {
		f.Header.Set("retain", "true")
	}
	addHeaders(f, m.Headers)
	return c.ask(ctx, f)
}

// addHeaders adds what the user asks for; of a repeated header the first
// counts, so none of these replaces one of ours.
func addHeaders(f *frame.Frame, headers []Header) {
	for _, h := range headers {
		f.Header.Add(h.Name, h.Value)
	}
}

// Subscribe implements Conn. Messages are acknowledged one by one.
func (c *stompConn) Subscribe(ctx context.Context, i Interest, granted func(), handle Handler) error {
	for n, t := range i.Topics {
		f := frame.New(frame.SUBSCRIBE, frame.Destination, t, frame.Id, strconv.Itoa(n), frame.Ack, "client-individual")
		if c.version == "1.0" { // which has no other explicit mode
			f.Header.Set(frame.Ack, "client")
		}
		if c.prefetch > 0 {
			f.Header.Set("prefetch-count", strconv.Itoa(c.prefetch))
		}
		addHeaders(f, i.Headers)
		if err := c.ask(ctx, f); err != nil {
			return err
		}
	}
	granted()
	for {
		f, err := c.next(ctx)
		if err != nil {
			return err
		}
		done, err := handle(toMessage(f))
		if err == nil {
			err = c.put(c.ack(f))
		}
		if done || err != nil {
			return err
		}
	}
}

// ack is the ACK of a MESSAGE, which each version names in its own way.
func (c *stompConn) ack(f *frame.Frame) *frame.Frame {
	switch c.version {
	case "1.2":
		return frame.New(frame.ACK, frame.Id, f.Header.Get(frame.Ack))
	case "1.1":
		return frame.New(frame.ACK, frame.MessageId, f.Header.Get(frame.MessageId), frame.Subscription, f.Header.Get(frame.Subscription))
	}
	return frame.New(frame.ACK, frame.MessageId, f.Header.Get(frame.MessageId))
}

func toMessage(f *frame.Frame) Message {
	m := Message{
		Topic: f.Header.Get(frame.Destination), Payload: f.Body,
		ContentType: f.Header.Get(frame.ContentType), Retain: f.Header.Get("retained") == "true",
	}
	for i := range f.Header.Len() {
		name, value := f.Header.GetAt(i)
		switch name {
		case frame.Destination, frame.ContentType, frame.ContentLength, "retained":
		default:
			m.Headers = append(m.Headers, Header{name, value})
		}
	}
	return m
}

// Close implements Conn. It waits until the broker has read all that was sent.
func (c *stompConn) Close() error {
	select {
	case <-c.gone:
		return c.close()
	default:
	}
	err := c.ask(context.Background(), frame.New(frame.DISCONNECT))
	return errors.Join(err, c.close())
}
