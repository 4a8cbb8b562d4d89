package coap

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// wire is a client's end of a stream, written by hand. What comes is read at
// once, unless it is held.
type wire struct {
	net.Conn

	mu   sync.Mutex
	in   []byte
	shut bool
	told bool // that it is shut
	held chan struct{}
}

func newWire(s *Server) *wire {
	near, far := net.Pipe()
	w := &wire{Conn: near}
	s.ServeConn(far)
	go w.read()
	return w
}

func (w *wire) read() {
	buf := make([]byte, 64<<10)
	for {
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if held != nil {
			<-held
		}
		n, err := w.Read(buf)
		w.mu.Lock()
		w.in = append(w.in, buf[:n]...)
		w.shut = w.shut || err != nil
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// hold stops reading after what is being read, or goes on.
func (w *wire) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if on {
		w.held = make(chan struct{})
		return
	}
	close(w.held)
	w.held = nil
}

func (w *wire) close() { _ = w.Close() }

// write sends bytes; the broker may have ended the stream meanwhile.
func (w *wire) write(b []byte) {
	_, _ = w.Write(b)
	synctest.Wait()
}

// got are the messages that came since; each is a copy.
func (w *wire) got(t *testing.T) []packet {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []packet
	for {
		h, ok, err := readFrameHeader(w.in)
		if err != nil {
			t.Fatalf("the broker sent %x: %v", w.in, err)
		}
		if !ok || uint64(len(w.in)) < h.size {
			return all
		}
		var p packet
		if err := p.decodeFrame(append([]byte(nil), w.in[:h.size]...), h); err != nil {
			t.Fatalf("the broker sent %x: %v", w.in[:h.size], err)
		}
		w.in = w.in[h.size:]
		all = append(all, p)
	}
}

// ended tells once that the broker ended the stream.
func (w *wire) ended() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := w.shut && !w.told
	w.told = w.shut
	return first
}

// framed is a message as a stream has it.
func framed(m *outgoingPacket) []byte { return append(m.appendFrame(nil), m.payload...) }

// actOnWire is what a client with a stream does.
func (tr *transcript) actOnWire(name, verb, rest string) error {
	w := tr.wires[name]
	if w == nil && verb != "opens" && verb != "connects" {
		return fmt.Errorf("%s has no connection", name)
	}
	switch verb {
	case "opens":
		tr.wires[name] = newWire(tr.server)
	case "connects":
		tr.wires[name] = newWire(tr.server)
		tr.wires[name].write(framed(csm(8 << 20)))
		tr.wires[name].got(tr.t)
	case ">":
		p, err := readSignal(strings.Fields(tr.filled(rest)))
		if err != nil {
			return err
		}
		w.write(framed(p))
	case "raw":
		b, err := readHex(rest)
		if err != nil {
			return err
		}
		w.write(b)
	case "holds", "reads":
		w.hold(verb == "holds")
	case "closes":
		w.close()
		delete(tr.wires, name)
	default:
		return fmt.Errorf("no verb %q", verb)
	}
	return nil
}

func readHex(text string) ([]byte, error) {
	b, err := readOption(0, "hex:"+strings.ReplaceAll(text, " ", ""))
	return b, err
}

var signalNames = map[string]codes.Code{"CSM": codes.CSM, "PING": codes.Ping, "PONG": codes.Pong, "RELEASE": codes.Release, "ABORT": codes.Abort}

// signalOptions are the names of a signal's options.
func signalOptions(code codes.Code) map[string]message.OptionID {
	switch code {
	case codes.CSM:
		return map[string]message.OptionID{"Max-Message-Size": optionMaxMessageSize, "Block-Wise-Transfer": optionBlockWise}
	case codes.Ping, codes.Pong:
		return map[string]message.OptionID{"Custody": optionCustody}
	case codes.Abort:
		return map[string]message.OptionID{"Bad-CSM-Option": optionBadCSMOption}
	}
	return nil
}

// readSignal reads CODE TOKEN … of a stream.
func readSignal(words []string) (*outgoingPacket, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("CODE TOKEN …")
	}
	p := &outgoingPacket{code: signalNames[words[0]]}
	if p.code == 0 {
		var err error
		if p.code, err = readCode(words[0]); err != nil {
			return nil, err
		}
		return p, readWords(p, words[1:])
	}
	if err := readWords(p, words[1:2]); err != nil {
		return nil, err
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		if id, ok := signalOptions(p.code)[name]; ok {
			n, _ := strconv.ParseUint(value, 10, 32) // none is 0
			p.options = p.options.Add(message.Option{ID: id, Value: uintBytes(uint32(n))})
			continue
		}
		if err := readWords(p, []string{"-", w}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// wireNews are the lines for what came by streams.
func (tr *transcript) wireNews() []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(tr.wires)) {
		for _, p := range tr.wires[name].got(tr.t) {
			lines = append(lines, name+" < "+shownFrame(&p))
			tr.note(&p)
		}
		if tr.wires[name].ended() {
			lines = append(lines, name+" < closed")
		}
	}
	return lines
}

func shownFrame(p *packet) string {
	for name, code := range signalNames {
		if code == p.code {
			return name + " " + shownRest(p, func(o message.Option) string { return shownSignalOption(p.code, o) })
		}
	}
	return shownCode(p.code) + " " + shownRest(p, shownOption)
}

func shownSignalOption(code codes.Code, o message.Option) string {
	for name, id := range signalOptions(code) {
		if id == o.ID && len(o.Value) == 0 {
			return name
		}
		if id == o.ID {
			return fmt.Sprintf("%s=%d", name, uintOf(o.Value))
		}
	}
	return fmt.Sprintf("option%d", o.ID)
}
