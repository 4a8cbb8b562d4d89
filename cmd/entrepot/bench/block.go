package bench

import "encoding/binary"

// frame is one encoded message and where its changing parts are. An offset of
// 0 means that it has no such part.
type frame struct {
	bytes    []byte
	payload  int
	packetID int  // two bytes, MQTT QoS 1 and 2
	receipt  int  // eight digits, STOMP
	counted  bool // acknowledged by its place in the row, AMQP
}

// asks tells whether the broker acknowledges each.
func (f *frame) asks() bool { return f.packetID > 0 || f.receipt > 0 || f.counted }

// block is a row of copies of one frame, which a publisher writes again and
// again with new numbers.
type block struct {
	frame
	rows   []byte
	stride int
	count  int
}

// newBlock makes count copies of f, whose payload is that of the given
// publisher: the head, and letters to the end.
func newBlock(f frame, count, publisher int, run uint32) *block {
	b := &block{frame: f, stride: len(f.bytes), count: count}
	b.rows = make([]byte, 0, count*b.stride)
	for range count {
		b.rows = append(b.rows, f.bytes...)
	}
	head := payloadOf(publisher, run)
	for i := range count {
		at := b.rows[i*b.stride+f.payload:]
		binary.BigEndian.PutUint64(at, head)
		binary.BigEndian.PutUint64(at[8:], digits(0))
	}
	return b
}

// number puts the sequence numbers from seq on into the first n rows and
// returns these as the bytes to write.
func (b *block) number(seq uint64, n int) []byte {
	for i := range n {
		row := b.rows[i*b.stride : (i+1)*b.stride]
		putDigits(row[b.payload+8:], seq)
		if b.packetID > 0 {
			// MQTT-2.3.1-1: never 0.
			binary.BigEndian.PutUint16(row[b.packetID:], uint16(seq%65_535)+1)
		}
		if b.receipt > 0 {
			binary.BigEndian.PutUint64(row[b.receipt:], hexDigits(uint32(seq)))
		}
		seq++
	}
	return b.rows[:n*b.stride]
}

// stamp puts a time into row i. Its payload must be long enough.
func (b *block) stamp(i int, nanoseconds int64) {
	putDigits(b.rows[i*b.stride+b.payload+16:], uint64(nanoseconds))
}

// fill is the payload of an unnumbered frame.
func fill(to []byte, size int) []byte {
	for i := range size {
		if i < payloadStamped {
			to = append(to, '0')
		} else {
			to = append(to, 'a'+byte(i%26))
		}
	}
	return to
}
