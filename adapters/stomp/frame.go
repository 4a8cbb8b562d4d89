package stomp

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// version is the protocol version of a connection; 0 before CONNECT.
type version uint8

const (
	v10 version = iota + 1
	v11
	v12
)

func (v version) String() string { return [...]string{"", "1.0", "1.1", "1.2"}[v] }

// command is what a client's frame asks for.
type command uint8

const (
	unknownCommand command = iota
	connectCommand         // CONNECT or STOMP
	sendCommand
	subscribeCommand
	unsubscribeCommand
	ackCommand
	nackCommand
	beginCommand
	commitCommand
	abortCommand
	disconnectCommand
)

// longestCommand is the length of "UNSUBSCRIBE".
const longestCommand = 11

func commandOf(line []byte) command {
	switch string(line) {
	case "SEND":
		return sendCommand
	case "ACK":
		return ackCommand
	case "NACK":
		return nackCommand
	case "CONNECT", "STOMP":
		return connectCommand
	case "SUBSCRIBE":
		return subscribeCommand
	case "UNSUBSCRIBE":
		return unsubscribeCommand
	case "BEGIN":
		return beginCommand
	case "COMMIT":
		return commitCommand
	case "ABORT":
		return abortCommand
	case "DISCONNECT":
		return disconnectCommand
	}
	return unknownCommand
}

// limits bound a frame.
type limits struct {
	headers, headerBytes, body int
}

// span is one header: the places of name and value in the frame's bytes.
type span struct {
	name, nameEnd, value, valueEnd int
	id                             headerID
}

// frame is one frame of a client, parsed in place: its parts are places in the bytes
// that Feed got. While a frame is incomplete it remembers how far it was read, so that
// a frame in a thousand pieces costs no more than one in one piece.
type frame struct {
	version version
	limits  limits

	command command
	bytes   []byte
	spans   []span
	has     headerSet
	first   [headerCount]uint16 // place in spans of the first header of that name
	body    []byte

	stage  stage
	line   int // where the line or body that is being read begins
	seen   int // up to where it was searched for its end
	length int // content-length; -1 for none
}

type stage uint8

const (
	commandStage stage = iota
	headerStage
	bodyStage
)

// reset makes the frame ready for the next one.
func (f *frame) reset() {
	f.bytes, f.body = nil, nil
	f.spans, f.has = f.spans[:0], 0
	f.stage, f.line, f.seen, f.length = commandStage, 0, 0, -1
	if cap(f.spans) > 64 {
		f.spans = nil
	}
}

// parse reads the frame that b begins with and returns its length, 0 when b does not
// hold all of it; then it is called again with the same bytes and more. An error is a
// *fault; nothing after it can be read.
func (f *frame) parse(b []byte) (int, error) {
	f.bytes = b
	for f.stage != bodyStage {
		line, ok, err := f.readLine()
		if !ok || err != nil {
			return 0, err
		}
		if f.stage == commandStage {
			err = f.setCommand(line)
		} else if len(line) == 0 {
			err = f.beginBody()
		} else {
			err = f.addHeader(line)
		}
		if err != nil {
			return 0, err
		}
	}
	return f.readBody()
}

// readLine returns the next line without its end. ok is false when there is no whole
// line yet.
func (f *frame) readLine() (line []byte, ok bool, err error) {
	rest := f.bytes[f.seen:]
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		if bytes.IndexByte(rest, 0) >= 0 {
			return nil, false, malformed("a NUL before the end of the headers; an empty line must end them")
		}
		f.seen = len(f.bytes)
		if f.stage == commandStage && f.seen > longestCommand+1 {
			return nil, false, malformed("the command line has no end")
		}
		return nil, false, f.checkHeaderBytes(f.seen)
	}
	end := f.seen + n
	line = f.bytes[f.line:end]
	if len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	f.seen = end + 1
	return line, true, f.checkHeaderBytes(f.seen)
}

func (f *frame) checkHeaderBytes(n int) error {
	if n > f.limits.headerBytes {
		return malformed("command and headers are longer than %d bytes", f.limits.headerBytes)
	}
	return nil
}

func (f *frame) setCommand(line []byte) error {
	f.command = commandOf(line)
	f.line, f.stage = f.seen, headerStage
	if f.command == unknownCommand {
		return malformed("unknown command %.20q", line)
	}
	if f.version == 0 && f.command != connectCommand {
		return bad("not connected: the first frame must be CONNECT or STOMP")
	}
	return nil
}

func (f *frame) addHeader(line []byte) error {
	var bits byte
	odd := false
	for _, c := range line {
		bits |= c
		odd = odd || c < ' ' || c == '\\'
	}
	if odd || bits >= utf8.RuneSelf {
		if err := f.checkLine(line); err != nil {
			return err
		}
	}
	mid := bytes.IndexByte(line, ':')
	if mid <= 0 {
		return malformed("a header line must be a name, a colon and a value: %.40q", line)
	}
	if len(f.spans) >= f.limits.headers {
		return malformed("more than %d headers", f.limits.headers)
	}
	s := span{name: f.line, nameEnd: f.line + mid, value: f.line + mid + 1, valueEnd: f.line + len(line)}
	if f.version == v10 {
		s.name, s.nameEnd = f.trim(s.name, s.nameEnd)
		s.value, s.valueEnd = f.trim(s.value, s.valueEnd)
	}
	s.id = headerIDOf(f.bytes[s.name:s.nameEnd])
	if !f.has.holds(s.id) {
		f.has |= s.id.set()
		f.first[s.id] = uint16(len(f.spans))
	}
	f.spans = append(f.spans, s)
	f.line = f.seen
	return nil
}

// checkLine looks closer at a line that is not plain ASCII.
func (f *frame) checkLine(line []byte) error {
	switch {
	case bytes.IndexByte(line, 0) >= 0:
		return malformed("a NUL in a header; an empty line must end the headers")
	case !utf8.Valid(line):
		return malformed("a header that is not UTF-8")
	case f.version == v12 && bytes.IndexByte(line, '\r') >= 0:
		return malformed("a carriage return inside a header line")
	case f.escaped() && !escapesKnown(line, f.version):
		return malformed("an undefined escape sequence in header %.40q", line)
	}
	return nil
}

// escaped tells whether this frame's headers may hold escapes: CONNECT has none, so
// that 1.0 servers read it, and 1.0 has none at all.
func (f *frame) escaped() bool { return f.version >= v11 && f.command != connectCommand }

// trim leaves out the white space that 1.0 clients put around names and values.
func (f *frame) trim(from, to int) (int, int) {
	for from < to && (f.bytes[from] == ' ' || f.bytes[from] == '\t') {
		from++
	}
	for from < to && (f.bytes[to-1] == ' ' || f.bytes[to-1] == '\t') {
		to--
	}
	return from, to
}

func (f *frame) beginBody() error {
	f.stage, f.line = bodyStage, f.seen
	if !f.has.holds(contentLengthHeader) {
		return nil
	}
	// The first one counts, but two that differ are an attempt to make two readers see
	// different frames.
	text := f.value(contentLengthHeader)
	for _, s := range f.spans {
		if s.id == contentLengthHeader && !bytes.Equal(f.valueOf(s), text) {
			return malformed("two content-length headers that differ")
		}
	}
	n, ok := decimal(text)
	switch {
	case !ok && (len(text) == 0 || len(bytes.Trim(text, "0123456789")) > 0):
		return malformed("content-length is not a number: %.20q", text)
	case !ok || n > f.limits.body:
		return tooLarge("a body of %.20s bytes, the limit is %d", text, f.limits.body)
	}
	f.length = n
	return nil
}

// readBody ends the frame: after content-length bytes, else at the first NUL.
func (f *frame) readBody() (int, error) {
	if f.length >= 0 {
		end := f.line + f.length
		if end >= len(f.bytes) {
			return 0, nil
		}
		if f.bytes[end] != 0 {
			return 0, malformed("no NUL after content-length bytes of body")
		}
		f.body = f.bytes[f.line:end]
		return end + 1, nil
	}
	n := bytes.IndexByte(f.bytes[f.seen:], 0)
	if n < 0 {
		f.seen = len(f.bytes)
		n = 0
	} else {
		f.body = f.bytes[f.line : f.seen+n]
		n += f.seen + 1
	}
	if f.seen-f.line > f.limits.body || len(f.body) > f.limits.body {
		return 0, tooLarge("a body of more than %d bytes", f.limits.body)
	}
	return n, nil
}

// decimal reads 1 to 9 digits and nothing else.
func decimal(b []byte) (int, bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func (f *frame) valueOf(s span) []byte { return f.bytes[s.value:s.valueEnd] }

func (f *frame) nameOf(s span) []byte { return f.bytes[s.name:s.nameEnd] }

// value is the first value of a header as it stands in the frame, nil when there is
// none.
func (f *frame) value(id headerID) []byte {
	if !f.has.holds(id) {
		return nil
	}
	return f.valueOf(f.spans[f.first[id]])
}

// text is value, decoded.
func (f *frame) text(id headerID) string { return f.decode(f.value(id)) }

// decode undoes the escapes, which were checked before.
func (f *frame) decode(b []byte) string {
	if !f.escaped() || bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	return unescape(b)
}

// longestID is how long may be what the broker has to remember: ids, receipts, names.
const longestID = 1000

// rememberedHeaders are those.
const rememberedHeaders headerSet = 1<<idHeader | 1<<receiptHeader | 1<<transactionHeader | 1<<loginHeader |
	1<<clientIDHeader | 1<<amqSubscriptionHeader | 1<<durableNameHeader

// checkIDs refuses longer ones.
func (f *frame) checkIDs() error {
	for id := otherHeader + 1; id < headerCount; id++ {
		if (f.has & rememberedHeaders).holds(id) && len(f.value(id)) > longestID {
			return malformed("header %s is longer than %d bytes", f.nameOf(f.spans[f.first[id]]), longestID)
		}
	}
	return nil
}

// isTrue tells whether a header is there and says true.
func (f *frame) isTrue(id headerID) bool {
	return f.has.holds(id) && strings.EqualFold(string(f.value(id)), "true")
}
