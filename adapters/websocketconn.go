package adapters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

const (
	// closeTime is how long a close frame may take to leave.
	closeTime = 200 * time.Millisecond
	// fullMessage is the size from which no more is put into a message.
	fullMessage = 64 << 10
)

// websocketFault is what is wrong with a client's frames: the close code of
// RFC 6455, 7.4.1 and its reason.
type websocketFault struct {
	code int
	text string
}

func (f *websocketFault) Error() string {
	return fmt.Sprintf("websocket: %s (close code %d)", f.text, f.code)
}

// websocketConn is a WebSocket as a connection. As for every connection, one
// reads and one writes at a time. Write sends one message.
type websocketConn struct {
	*websocketSocket
	ws   *websocket.Conn
	text bool

	// The reader's own.
	message io.Reader // nil between two
	left    int64     // bytes of message; unknown when it comes in several frames
	runes   *runes    // of a text message
	err     error     // what Read returns from now on
	told    bool      // CloseWrite was called: what comes is of no interest
	code    int

	cfg    WebSocketConfig
	closed atomic.Bool
	pinger *time.Timer
	silent time.Duration // the pinger's
	pongs  pongs
}

const unknown = -1

func newWebsocketConn(ws *websocket.Conn, s *websocketSocket, cfg WebSocketConfig, text bool) *websocketConn {
	c := &websocketConn{websocketSocket: s, ws: ws, text: text, cfg: cfg, code: websocket.CloseTryAgainLater}
	ws.SetReadLimit(cfg.MaxMessage)
	ws.SetPingHandler(func(data string) error {
		c.pongs.answer(ws, data)
		return nil
	})
	if cfg.Ping > 0 {
		c.pinger = time.AfterFunc(time.Hour, c.ping)
		c.pinger.Reset(cfg.Ping)
	}
	return c
}

// Read implements net.Conn. It gathers what has come of several messages.
func (c *websocketConn) Read(p []byte) (int, error) {
	if c.told {
		return c.Conn.Read(p)
	}
	n := 0
	for n < len(p) && c.err == nil && (n == 0 || c.atHand()) {
		var k int
		k, c.err = c.readSome(p[n:])
		n += k
	}
	if n > 0 || c.err == nil {
		c.paid(n)
		return n, nil
	}
	return 0, c.err
}

// atHand tells that readSome would not wait.
func (c *websocketConn) atHand() bool {
	switch have := c.in.Buffered(); {
	case have == 0:
		return false
	case c.message != nil:
		return c.left != unknown
	case have < 2:
		return false
	default:
		b, _ := c.in.Peek(2)
		return sole(b) && have >= headSize(b)
	}
}

// sole tells whether a frame is a whole message: FIN, text or binary, masked.
func sole(head []byte) bool { return (head[0] == 0x81 || head[0] == 0x82) && head[1] >= 0x80 }

// headSize is the length of a client's frame header, from its first two bytes.
func headSize(head []byte) int {
	switch head[1] & 0x7F {
	case 126:
		return 2 + 2 + 4
	case 127:
		return 2 + 8 + 4
	}
	return 2 + 4
}

// frameSize is the length of a frame's payload, from its whole header.
func frameSize(head []byte) int64 {
	switch n := head[1] & 0x7F; n {
	case 126:
		return int64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		return int64(binary.BigEndian.Uint64(head[2:]))
	default:
		return int64(n)
	}
}

// readSome reads from one message; 0 bytes at its end.
func (c *websocketConn) readSome(p []byte) (int, error) {
	if c.message == nil {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := 0, error(nil)
	if c.left != 0 {
		n, err = c.message.Read(p)
	}
	if c.runes != nil && !c.runes.take(p[:n]) {
		return 0, notUTF8()
	}
	if c.left != unknown {
		c.left -= int64(n)
	}
	switch {
	case err != nil && err != io.EOF:
		return n, c.reason(err)
	case err == nil && c.left != 0:
		return n, nil
	}
	c.message = nil
	if c.runes != nil && !c.runes.whole() {
		return n, notUTF8()
	}
	return n, nil
}

func notUTF8() error {
	return &websocketFault{websocket.CloseInvalidFramePayloadData, "a text message is not UTF-8"}
}

// next waits for a message.
func (c *websocketConn) next() error {
	c.left = unknown
	head, err := c.in.Peek(2)
	if err == nil && sole(head) {
		if head, err = c.in.Peek(headSize(head)); err == nil {
			c.left = frameSize(head)
		}
	}
	if err != nil {
		return c.reason(err)
	}
	kind, message, err := c.ws.NextReader()
	if err != nil {
		return c.reason(err)
	}
	c.message, c.runes = message, nil
	if kind == websocket.TextMessage {
		if !c.text {
			return &websocketFault{websocket.CloseUnsupportedData, "a text message; this protocol comes in binary ones"}
		}
		c.runes = &runes{}
	}
	return nil
}

// reason is what reading ended for: io.EOF when the client said good-bye, what
// end or the socket said, or what the client did wrong.
func (c *websocketConn) reason(err error) error {
	if end := c.ending.Load(); end != nil {
		return *end
	}
	var bye *websocket.CloseError
	switch {
	case c.failed != nil:
		return c.failed
	case errors.As(err, &bye):
		return io.EOF
	case errors.Is(err, websocket.ErrReadLimit):
		return &websocketFault{websocket.CloseMessageTooBig, fmt.Sprintf("a message of more than %d bytes", c.cfg.MaxMessage)}
	}
	return &websocketFault{websocket.CloseProtocolError, err.Error()}
}

// Write implements net.Conn: p is one message.
func (c *websocketConn) Write(p []byte) (int, error) {
	return c.writeRuns([]chunk{{b: p}})
}

// writeRuns sends the first of runs as one message that ends where a packet
// ends, and returns how many bytes that were.
func (c *websocketConn) writeRuns(all []chunk) (int, error) {
	runs, size := cutMessage(all)
	if size == 0 {
		return 0, nil
	}
	kind := websocket.BinaryMessage
	if c.text && allUTF8(runs) {
		kind = websocket.TextMessage
	}
	if err := c.writeMessage(kind, runs); err != nil {
		return 0, err
	}
	return size, nil
}

// cutMessage takes from the front of runs what makes up a message. Packets end
// where a buffer does: only before its last run may one be open.
func cutMessage(runs []chunk) ([]chunk, int) {
	size := 0
	for i, r := range runs {
		if size += len(r.b); size >= fullMessage && r.lent != nil {
			return runs[:i+1], size
		}
	}
	return runs, size
}

func allUTF8(runs []chunk) bool {
	for _, r := range runs {
		if !utf8.Valid(r.b) {
			return false
		}
	}
	return true
}

func (c *websocketConn) writeMessage(kind int, runs []chunk) error {
	if len(runs) == 1 {
		return c.ws.WriteMessage(kind, runs[0].b)
	}
	w, err := c.ws.NextWriter(kind)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if _, err := w.Write(r.b); err != nil {
			return err
		}
	}
	return w.Close()
}

// SetDeadline implements net.Conn.
func (c *websocketConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline implements net.Conn.
func (c *websocketConn) SetWriteDeadline(t time.Time) error { return c.limitWrites(t) }

// because chooses the close code.
func (c *websocketConn) because(err error) {
	var fault *websocketFault
	switch {
	case errors.As(err, &fault):
		c.code = fault.code
	case err == nil, errors.Is(err, ErrDone), errors.Is(err, io.EOF):
		c.code = websocket.CloseNormalClosure
	case errors.Is(err, ErrKicked):
		c.code = websocket.CloseGoingAway
	case errors.Is(err, ErrFrameTooLarge):
		c.code = websocket.CloseMessageTooBig
	default:
		c.code = websocket.ClosePolicyViolation
	}
}

// CloseWrite says good-bye and lets the client close. Read then returns what is
// of no use but to be taken off the socket. The reader's to call.
func (c *websocketConn) CloseWrite() error {
	c.told = true
	c.sayClose()
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close implements net.Conn. It says good-bye if that can leave at once.
func (c *websocketConn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if !c.told {
		c.sayClose()
	}
	return c.Conn.Close()
}

// sayClose sends the close frame, unless one was sent.
func (c *websocketConn) sayClose() {
	if c.pinger != nil {
		c.pinger.Stop()
	}
	// Who does not read does not get it.
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(c.code, ""), time.Now().Add(closeTime))
}

// ping is called in every interval and ends a connection that is dead.
func (c *websocketConn) ping() {
	if c.heard.Swap(false) {
		c.silent = 0
	} else if c.silent += c.cfg.Ping; c.silent >= c.cfg.PongTimeout {
		c.end(fmt.Errorf("websocket: %w", ErrTimeout))
		return
	}
	if err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(c.cfg.PongTimeout)); err != nil {
		c.end(fmt.Errorf("websocket: ping: %w", err))
		return
	}
	if !c.closed.Load() {
		c.pinger.Reset(c.cfg.Ping)
	}
}

// pongs answers pings without making the reader wait for the socket: the last
// one when several came meanwhile (RFC 6455, 5.5.3).
type pongs struct {
	mu      sync.Mutex
	asked   bool
	data    string
	sending bool
}

func (p *pongs) answer(ws *websocket.Conn, data string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.data = true, data
	if !p.sending {
		p.sending = true
		go p.send(ws)
	}
}

func (p *pongs) send(ws *websocket.Conn) {
	for {
		data, ok := p.take()
		if !ok {
			return
		}
		// What is wrong with the socket shows to its reader and writer.
		_ = ws.WriteControl(websocket.PongMessage, []byte(data), time.Time{})
	}
}

func (p *pongs) take() (data string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending = p.asked
	p.asked = false
	return p.data, p.sending
}
