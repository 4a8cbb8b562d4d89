package stomp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"entrepot/core"
	"entrepot/core/local"
)

func testLimits() limits { return limits{headers: 20, headerBytes: 2000, body: 1000} }

// parseAll reads frames until the input ends or is refused, as Feed does: what comes in
// one call begins at a frame.
func parseAll(v version, b []byte) (frames []string, err error) {
	f := frame{version: v, limits: testLimits()}
	f.reset()
	for len(b) > 0 {
		n, err := f.parse(b)
		if err != nil {
			return frames, err
		}
		if n == 0 {
			return frames, io.ErrUnexpectedEOF
		}
		frames = append(frames, describeFrame(&f))
		b = b[n:]
		f.reset()
	}
	return frames, nil
}

func describeFrame(f *frame) string {
	s := fmt.Sprintf("%d", f.command)
	for _, h := range f.spans {
		s += fmt.Sprintf(" %q=%q", f.decode(f.nameOf(h)), f.decode(f.valueOf(h)))
	}
	return s + fmt.Sprintf(" %q", f.body)
}

// TestBadFrames shows faults 11, 12 and 24.
func TestBadFrames(t *testing.T) {
	for _, c := range []struct {
		title, text, want string
	}{
		{"[fault 11] negative content-length", "SEND\ncontent-length:-1\n\n\x00", "not a number"},
		{"[fault 11] content-length with a sign", "SEND\ncontent-length:+1\n\nx\x00", "not a number"},
		{"[fault 11] content-length with a space", "SEND\ncontent-length: 1\n\nx\x00", "not a number"},
		{"[fault 11] content-length in hexadecimal", "SEND\ncontent-length:0x1\n\nx\x00", "not a number"},
		{"[fault 11] empty content-length", "SEND\ncontent-length:\n\n\x00", "not a number"},
		{"[fault 11] content-length that overflows 64 bits", "SEND\ncontent-length:18446744073709551617\n\nx\x00", "limit is 1000"},
		{"[fault 11] content-length over the limit", "SEND\ncontent-length:1001\n\n", "limit is 1000"},
		{"[fault 11] two content-lengths that differ", "SEND\ncontent-length:1\ncontent-length:2\n\nx\x00", "differ"},
		{"[1.2 Body] no NUL after content-length bytes", "SEND\ncontent-length:1\n\nxy\x00", "no NUL"},
		{"[1.2 Body] content-length shorter than the body", "SEND\ncontent-length:0\n\nx\x00", "no NUL"},
		{"[fault 12] a body without end", "SEND\n\n" + strings.Repeat("x", 1001), "more than 1000 bytes"},
		{"[fault 12] a header line without end", "SEND\nh:" + strings.Repeat("x", 2000), "longer than 2000 bytes"},
		{"[fault 12] many headers", "SEND\n" + strings.Repeat("a:b\n", 21), "more than 20 headers"},
		{"[fault 12] many bytes of headers", "SEND\n" + strings.Repeat("a:"+strings.Repeat("x", 300)+"\n", 7), "longer than 2000 bytes"},
		{"[fault 12] a command without end", "SENDSENDSENDSEND", "no end"},
		{"[1.2 Augmented BNF] a header without name", "SEND\n:x\n\n\x00", "a name, a colon"},
		{"[1.2 Augmented BNF] white space before a command", " SEND\n\n\x00", "unknown command"},
		{"[1.2 Augmented BNF] commands are in capitals", "send\n\n\x00", "unknown command"},
		{"[1.2 STOMP Frames] a server's frame", "MESSAGE\n\n\x00", "unknown command"},
		{"[fault 24] overlong UTF-8", "SEND\nh:\xC0\x80\n\n\x00", "UTF-8"},
		{"[fault 24] a surrogate", "SEND\nh:\xED\xA0\x80\n\n\x00", "UTF-8"},
		{"[1.2 Value Encoding] an escape at the end of a line", "SEND\nh:x\\\n\n\x00", "undefined escape"},
		{"[1.2 Value Encoding] an undefined escape in a name", "SEND\na\\tb:x\n\n\x00", "undefined escape"},
	} {
		_, err := parseAll(v12, []byte(c.text))
		var f *fault
		if !errors.As(err, &f) || !strings.Contains(f.Error(), c.want) {
			t.Errorf("%s: %v", c.title, err)
		}
		if f != nil && len(f.Error()) > 200 {
			t.Errorf("%s: the answer repeats the attack: %d bytes", c.title, len(f.Error()))
		}
	}
}

func TestGoodFrames(t *testing.T) {
	for _, c := range []struct {
		title string
		v     version
		text  string
		want  string
	}{
		{"[1.2 Value Encoding] colons in a value, as many clients send them", v12, "SEND\na:b:c\n\n\x00", `2 "a"="b:c" ""`},
		{"[1.2 Value Encoding] white space is kept", v12, "SEND\na : b \n\n\x00", `2 "a "=" b " ""`},
		{"[1.0] white space around names and values is not kept", v10, "SEND\n a : b \n\n\x00", `2 "a"="b" ""`},
		{"[1.0] content-length with a space", v10, "SEND\ncontent-length: 1\n\n\x00\x00", `2 "content-length"="1" "\x00"`},
		{"[1.2 Body] two equal content-lengths", v12, "SEND\ncontent-length:1\ncontent-length:1\n\nx\x00", `2 "content-length"="1" "content-length"="1" "x"`},
		{"[1.2 Header content-length] leading zeros", v12, "SEND\ncontent-length:001\n\nx\x00", `2 "content-length"="001" "x"`},
		{"[1.2 Augmented BNF] an empty value", v12, "SEND\na:\n\n\x00", `2 "a"="" ""`},
		{"[1.2 Augmented BNF] no headers", v12, "SEND\n\n\x00", `2 ""`},
		{"[1.1 Value Encoding] UTF-8 in names and values", v11, "SEND\nä:ö\n\n\x00", `2 "ä"="ö" ""`},
	} {
		got, err := parseAll(c.v, []byte(c.text))
		if err != nil || len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %q %v", c.title, got, err)
		}
	}
}

// FuzzFrame: a frame in pieces is the same as in one piece.
func FuzzFrame(f *testing.F) {
	f.Add(uint8(3), []byte("SEND\ndestination:/topic/a\ncontent-length:3\n\n\x00\x00\x00\x00ACK\r\nid:a\\cb\r\n\r\n\x00"), uint16(5))
	f.Add(uint8(1), []byte("SEND\n a : b\n\nxyz\x00"), uint16(1))
	f.Fuzz(func(t *testing.T, v uint8, b []byte, step uint16) {
		ver := version(v%3) + 1
		want, wantErr := parseAll(ver, b)
		fr := frame{version: ver, limits: testLimits()}
		fr.reset()
		var got []string
		var gotErr error
		from := 0
		for to := 0; to < len(b) && gotErr == nil; {
			to = min(len(b), to+1+int(step%97))
			for from < to && gotErr == nil {
				// A new place in memory each time, as the reader's buffers are.
				n, err := fr.parse(bytes.Clone(b[from:to]))
				if gotErr = err; err != nil || n == 0 {
					break
				}
				got = append(got, describeFrame(&fr))
				from += n
				fr.reset()
			}
		}
		if gotErr == nil && from < len(b) {
			gotErr = io.ErrUnexpectedEOF
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || (gotErr == nil) != (wantErr == nil) ||
			errors.Is(gotErr, io.ErrUnexpectedEOF) != errors.Is(wantErr, io.ErrUnexpectedEOF) {
			t.Errorf("in pieces %q %v, at once %q %v", got, gotErr, want, wantErr)
		}
	})
}

// TestFrameInPiecesCostsNoMore: a frame that comes byte by byte is not searched anew for
// each byte.
// It shows fault 12.
func TestFrameInPiecesCostsNoMore(t *testing.T) {
	text := []byte("SEND\n" + strings.Repeat("h:"+strings.Repeat("x", 60)+"\n", 900) + "\n" + strings.Repeat("y", 200_000) + "\x00")
	f := frame{version: v12, limits: limits{headers: 1000, headerBytes: 100_000, body: 1 << 20}}
	f.reset()
	start := time.Now()
	for n := 1; n < len(text); n++ {
		if used, err := f.parse(text[:n]); used != 0 || err != nil {
			t.Fatal(n, used, err)
		}
	}
	if used, err := f.parse(text); used != len(text) || err != nil {
		t.Fatal(used, err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("%v for %d bytes", d, len(text))
	}
}

// TestContentLengthAllocatesNothing [faults 11 and 13]: a claim is not believed before
// the bytes are there.
func TestContentLengthAllocatesNothing(t *testing.T) {
	f := frame{version: v12, limits: limits{headers: 10, headerBytes: 1000, body: 256 << 20}}
	f.reset()
	text := []byte("SEND\ncontent-length:200000000\n\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		f.reset()
		if _, err := f.parse(text); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes for nothing", grown)
	}
}

// converse feeds bytes to a connection of a fresh broker, in pieces, and returns all
// that comes back.
func converse(t *testing.T, b []byte, step int) (out string) {
	log := slog.New(slog.DiscardHandler)
	broker := core.NewBroker(core.DefaultConfig(), "default", local.New(log), nil, log)
	cfg := DefaultConfig()
	cfg.MaxBody, cfg.MaxHeaderBytes, cfg.Limits.LoginBytes = 4096, 4096, 2048
	s := New(cfg, core.NewRealms(broker), log)
	near, far := net.Pipe()
	s.ServeConn(far)
	client := &pipeClient{conn: near}
	go client.read()
	for len(b) > 0 {
		n := min(step, len(b))
		if _, err := near.Write(b[:n]); err != nil {
			break
		}
		b = b[n:]
		synctest.Wait()
	}
	synctest.Wait()
	near.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	broker.Close()
	if st := broker.Stats().Engine; st.Consumers > 0 || st.Unsettled > 0 {
		t.Errorf("left behind: %+v", st)
	}
	synctest.Wait()
	return string(client.got)
}

var randomName = regexp.MustCompile(replyPrefix + "[A-Z2-7]{26}")

// sameForAll leaves out random names, and the reason of an ERROR: which of several is
// seen first depends on the pieces.
func sameForAll(out string) string {
	out, _, refused := strings.Cut(randomName.ReplaceAllString(out, "NAME"), "ERROR\n")
	return fmt.Sprint(out, refused)
}

// FuzzFeed: any bytes in any pieces lead to the same answers, to no panic, and leave
// nothing behind.
func FuzzFeed(f *testing.F) {
	hello := "CONNECT\naccept-version:1.2\n\n\x00"
	f.Add([]byte(hello+"SUBSCRIBE\nid:0\ndestination:/topic/a\nack:client\n\n\x00SEND\ndestination:/topic/a\nreceipt:r\n\nx\x00ACK\nid:1-1-1\n\n\x00"), uint16(3))
	f.Add([]byte(hello+"BEGIN\ntransaction:t\n\n\x00SEND\ndestination:/queue/q\ntransaction:t\nreply-to:/temp-queue/x\n\n\x00COMMIT\ntransaction:t\n\n\x00DISCONNECT\nreceipt:r\n\n\x00"), uint16(7))
	f.Add([]byte("CONNECT\n\n\x00SUBSCRIBE\ndestination:/exchange/amq.direct/k\nselector:a=1\ndurable:true\nid:5\n\n\x00UNSUBSCRIBE\nid:5\ndurable:true\n\n\x00"), uint16(100))
	f.Add([]byte(hello+"SUBSCRIBE\nid:0\ndestination:/queue/q\nack:client-individual\nx-max-length:3\n\n\x00SEND\ndestination:/queue/q\nexpiration:0\n\n\x00NACK\nid:1-1-1\nrequeue:false\n\n\x00"), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, step uint16) {
		if len(b) > 4096 {
			return
		}
		var whole, pieces string
		synctest.Test(t, func(t *testing.T) { whole = converse(t, b, len(b)) })
		synctest.Test(t, func(t *testing.T) { pieces = converse(t, b, int(step)%512+1) })
		whole, pieces = sameForAll(whole), sameForAll(pieces)
		if whole != pieces {
			t.Errorf("at once %q, in pieces %q", whole, pieces)
		}
	})
}
