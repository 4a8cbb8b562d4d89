package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// frame is a STOMP frame; headers keep their order and their repetitions. As
// with packet, the codec is the tests' own.
type frame struct {
	command string
	headers [][2]string
	body    []byte
}

// get is the first header of a name, "" when there is none (STOMP 1.2,
// Repeated Header Entries).
func (f *frame) get(name string) string {
	for _, h := range f.headers {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

func (f *frame) has(name string) bool {
	return slices.ContainsFunc(f.headers, func(h [2]string) bool { return h[0] == name })
}

// escaping is what a version does to header text: 1.0 nothing, 1.1 all but
// carriage returns; CONNECT and CONNECTED are never escaped.
func escaping(version, command string) []string {
	switch {
	case version == "1.0" || command == "CONNECT" || command == "CONNECTED":
		return nil
	case version == "1.1":
		return []string{"\\", "\\\\", "\n", "\\n", ":", "\\c"}
	}
	return []string{"\\", "\\\\", "\n", "\\n", ":", "\\c", "\r", "\\r"}
}

// encode is the frame on the wire; content-length is given unless the caller
// did or there is no body.
func (f *frame) encode(version string) []byte {
	escape := strings.NewReplacer(escaping(version, f.command)...)
	var b bytes.Buffer
	b.WriteString(f.command + "\n")
	for _, h := range f.headers {
		b.WriteString(escape.Replace(h[0]) + ":" + escape.Replace(h[1]) + "\n")
	}
	if len(f.body) > 0 && !f.has("content-length") {
		fmt.Fprintf(&b, "content-length:%d\n", len(f.body))
	}
	b.WriteByte('\n')
	b.Write(f.body)
	b.WriteByte(0)
	return b.Bytes()
}

// readFrame reads the next frame that the broker sends; heart-beats between
// frames are skipped.
func readFrame(version string, r *bufio.Reader) (*frame, error) {
	line := ""
	for line == "" {
		var err error
		if line, err = readLine(r); err != nil {
			return nil, err
		}
	}
	f := &frame{command: line}
	pairs := escaping(version, f.command)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	unescape := strings.NewReplacer(pairs...)
	for {
		line, err := readLine(r)
		if err != nil {
			return f, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || version == "1.2" && f.command != "CONNECTED" && strings.Contains(value, ":") {
			return f, fmt.Errorf("%s: header line %q", f.command, line)
		}
		f.headers = append(f.headers, [2]string{unescape.Replace(name), unescape.Replace(value)})
	}
	return f, f.readBody(r)
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func (f *frame) readBody(r *bufio.Reader) error {
	if !f.has("content-length") {
		body, err := r.ReadBytes(0)
		f.body = bytes.TrimSuffix(body, []byte{0})
		return err
	}
	n, err := strconv.Atoi(f.get("content-length"))
	if err != nil {
		return fmt.Errorf("content-length: %w", err)
	}
	f.body = make([]byte, n)
	if _, err := io.ReadFull(r, f.body); err != nil {
		return err
	}
	if end, err := r.ReadByte(); err != nil || end != 0 {
		return fmt.Errorf("%s: no NUL after %d bytes: %w", f.command, n, err)
	}
	return nil
}

// String is the frame as scripts show it; what differs from run to run is
// starred.
func (f *frame) String() string {
	words := []string{f.command}
	for _, h := range f.headers {
		value := shown(h[1])
		switch h[0] {
		case "message-id", "ack", "session", "server":
			value = "*"
		case "content-length":
			if f.command != "MESSAGE" && f.command != "RECEIPT" {
				continue // of an ERROR's sentence
			}
		}
		words = append(words, shown(h[0])+":"+value)
	}
	if f.command == "MESSAGE" || len(f.body) > 0 {
		words = append(words, fmt.Sprintf("payload=%q", f.body))
	}
	return strings.Join(words, " ")
}
