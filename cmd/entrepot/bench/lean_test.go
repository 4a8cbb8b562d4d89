package bench

import (
	"testing"
	"time"
)

// What the client itself costs a message, without sockets: the figures that
// the broker's share of a machine must not drown in.

const rowsARead = 400

func benchmarkScan(b *testing.B, whole []byte, count int, of func(s *subscriber) scanner) {
	s := newSubscriber(&link{}, 9, 0, 1)
	scan := of(s)
	b.ReportAllocs()
	for b.Loop() {
		s.flows[0].ledger = ledger{}
		if n, err := scan(whole); err != nil || n != len(whole) {
			b.Fatal(n, err)
		}
	}
	if got := s.flows[0].delivered(); got != uint64(count) {
		b.Fatal(got)
	}
	b.ReportMetric(float64(b.Elapsed()/time.Nanosecond)/float64(b.N*count), "ns/message")
}

func BenchmarkMqttDeliveries(b *testing.B) {
	m := mqttOf(0, "3.1.1")
	rows := newBlock(m.frame("bench/0", 64), rowsARead, 0, 9)
	benchmarkScan(b, rows.number(0, rowsARead), rowsARead, m.deliveries)
}

func BenchmarkStompDeliveries(b *testing.B) {
	d := stompOf(nil)
	f := frame{bytes: []byte("MESSAGE\nsubscription:0\nmessage-id:0-1234567\ndestination:/topic/bench.0\ncontent-type:text/plain\ncontent-length:64\n\n")}
	f.payload = len(f.bytes)
	f.bytes = append(fill(f.bytes, 64), 0)
	rows := newBlock(f, rowsARead, 0, 9)
	benchmarkScan(b, rows.number(0, rowsARead), rowsARead, d.deliveries)
}

func BenchmarkNumber(b *testing.B) {
	rows := newBlock(mqttOf(1, "3.1.1").frame("bench/0", 64), rowsARead, 0, 9)
	b.ReportAllocs()
	for b.Loop() {
		rows.number(0, rowsARead)
	}
	b.ReportMetric(float64(b.Elapsed()/time.Nanosecond)/float64(b.N*rowsARead), "ns/message")
}

func TestNothingIsAllocatedForAMessage(t *testing.T) {
	m, d := mqttOf(1, "5"), stompOf(func(o *Options) { o.Ack = "client-individual" })
	mqttRows := newBlock(m.frame("bench/0", 64), 10, 0, 9)
	tests := []struct {
		name  string
		whole []byte
		of    func(s *subscriber) scanner
	}{
		{"mqtt", mqttRows.rows, m.deliveries},
		{"stomp", messages(payloadOf(0, 9)), d.deliveries},
	}
	for _, tt := range tests {
		s := newSubscriber(&link{version: "1.2"}, 9, 0, 1)
		scan := tt.of(s)
		if n := testing.AllocsPerRun(100, func() {
			s.link.out = s.link.out[:0]
			scan(tt.whole)
		}); n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { mqttRows.number(7, 10) }); n != 0 {
		t.Errorf("number: %v allocations", n)
	}
}
