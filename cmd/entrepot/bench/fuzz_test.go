package bench

import (
	"strings"
	"testing"
)

// Whatever a broker sends, a scanner stays within what it was given and takes
// the same from it in one piece as in two.
func FuzzDeliveries(f *testing.F) {
	m := mqttOf(1, "5")
	f.Add(newBlock(m.frame("a/0", 16), 2, 0, 9).number(0, 2), 20)
	f.Add([]byte("\x30\x05\x00\x01a\x85\x01\x62\x02\x00\x01"), 5)
	f.Add(messages(payloadOf(0, 9)), 50)
	f.Add([]byte("MESSAGE\r\ncontent-length:2\r\n\r\na\x00\x00\nRECEIPT\n\n\x00"), 30)
	f.Add([]byte("\x30\x22\x00\x01a"+strings.Repeat("\x00", 31)), 3) // before the first of a publisher
	d := stompOf(func(o *Options) { o.Ack = "client-individual" })
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if cut < 0 || cut > len(b) {
			return
		}
		for _, of := range []func(*subscriber) scanner{m.deliveries, d.deliveries} {
			whole, pieces := newSubscriber(&link{}, 9, 0, 1), newSubscriber(&link{}, 9, 0, 1)
			n, err := of(whole)(b)
			if n < 0 || n > len(b) {
				t.Fatalf("took %d of %d bytes", n, len(b))
			}
			scan := of(pieces)
			first, err1 := scan(b[:cut])
			second, err2 := 0, err1
			if err1 == nil {
				second, err2 = scan(b[first:])
			}
			if first+second != n || (err == nil) != (err2 == nil) || whole.state() != pieces.state() {
				t.Fatalf("whole: %d, %v, %s; cut at %d: %d and %d, %v, %s", n, err, whole.state(), cut, first, second, err2, pieces.state())
			}
		}
	})
}
