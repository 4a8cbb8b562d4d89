package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Logs and manifests are made of blocks with chunks in them; a record is one
// chunk or several. This reader is beside the database's own for two reasons:
// that one takes what does not fit for the end of the file where it has no
// proof of the contrary, so that one flipped bit may end a log early; and it
// reads nothing behind such a place.
//
// A chunk is: checksum 4, length 2, kind 1; of logs then the log's number 4 and
// how far the log was synced when it was written 8; then the payload. The
// checksum is of all from the kind on.
const (
	blockSize     = 32 << 10
	plainHeader   = 7  // manifests
	trailerHeader = 11 // of a log that was closed, with the next log's number
	syncedHeader  = 19 // logs
)

// chunk is one that is whole.
type chunk struct {
	off, end int
	first    bool // of a record
	last     bool
	trailer  bool // the log ends here
	data     []byte
	synced   int // the log was synced up to here when the chunk was written
}

// logFile is a log or manifest in memory.
type logFile struct {
	b      []byte
	number uint32 // the log's; 0 for a manifest
}

// form is what a kind of chunk looks like.
func form(kind byte) (header int, first, last bool) {
	if kind == 0 || kind > 12 {
		return 0, false, false
	}
	header = []int{plainHeader, trailerHeader, syncedHeader}[(kind-1)/4]
	part := (kind - 1) % 4 // full, first, middle, last
	return header, part <= 1, part == 0 || part == 3
}

func checksum(b []byte) uint32 {
	c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return c>>15 | c<<17 + 0xa282ead8
}

// unmask is the checksum without what checksum adds.
func unmask(c uint32) uint32 {
	c -= 0xa282ead8
	return c>>17 | c<<15
}

// room is the end of the block that off is in, or of the file.
func (f *logFile) room(off int) int { return min((off/blockSize+1)*blockSize, len(f.b)) }

// extent finds the chunk's header size and end by its header alone; not ok when
// it does not fit its block.
func (f *logFile) extent(off int) (header, end int, ok bool) {
	if off+plainHeader > f.room(off) {
		return 0, 0, false
	}
	header, _, _ = form(f.b[off+6])
	end = off + header + int(binary.LittleEndian.Uint16(f.b[off+4:]))
	return header, end, header > 0 && end <= f.room(off)
}

// at is the chunk at off; not ok when there is none that is whole.
func (f *logFile) at(off int) (c chunk, ok bool) {
	header, end, ok := f.extent(off)
	if !ok {
		return c, false
	}
	if f.trailer(off, header, end) {
		return chunk{off: off, end: end, trailer: true}, true
	}
	if !f.mine(off, header) || binary.LittleEndian.Uint32(f.b[off:]) != checksum(f.b[off+6:end]) {
		return c, false
	}
	_, first, last := form(f.b[off+6])
	c = chunk{off: off, end: end, first: first, last: last, data: f.b[off+header : end]}
	if header == syncedHeader {
		c.synced = int(binary.LittleEndian.Uint64(f.b[off+11:]))
	}
	return c, true
}

// mine tells this log's chunks from those of an older one whose file was used
// again.
func (f *logFile) mine(off, header int) bool {
	if header == plainHeader || f.number == 0 {
		return header == plainHeader && f.number == 0
	}
	return binary.LittleEndian.Uint32(f.b[off+7:]) == f.number
}

// trailer tells the empty chunk at the end, which has no checksum.
func (f *logFile) trailer(off, header, end int) bool {
	return f.number != 0 && header == trailerHeader && end == off+header &&
		binary.LittleEndian.Uint32(f.b[off:]) == 0 && binary.LittleEndian.Uint32(f.b[off+7:]) == f.number+1
}

// padding tells whether no chunk fits from off to the end of its block.
func (f *logFile) padding(off int) bool {
	rest := f.b[off:f.room(off)]
	if len(rest) < plainHeader {
		return true
	}
	if len(rest) >= syncedHeader {
		return false
	}
	for _, b := range rest {
		if b != 0 {
			return false
		}
	}
	return true
}

// chunks calls f for every chunk, and gap for every place where there is none,
// with the place where the next one is; -1 when there is no other.
func (f *logFile) chunks(do func(chunk), gap func(from, to int)) {
	for off := 0; off < len(f.b); {
		if f.padding(off) {
			off = f.room(off)
			continue
		}
		c, ok := f.at(off)
		if ok {
			do(c)
			off = c.end
			if c.trailer {
				return
			}
			continue
		}
		next := f.next(off + 1)
		gap(off, next)
		if next < 0 {
			return
		}
		off = next
	}
}

// next searches a whole chunk from off on; -1 when there is none.
func (f *logFile) next(off int) int {
	for ; off >= 0 && off < len(f.b); off++ {
		if f.number != 0 {
			off = f.candidate(off)
		}
		if off < 0 {
			break
		}
		if _, ok := f.at(off); ok {
			return off
		}
	}
	return -1
}

// candidate is the first place from off on where a log's chunk may be, by the
// number in it; -1 when there is none.
func (f *logFile) candidate(off int) int {
	first := -1
	for _, number := range []uint32{f.number, f.number + 1} {
		from := min(off+plainHeader, len(f.b))
		rest := f.b[from:]
		if first >= 0 {
			rest = f.b[from:min(first+trailerHeader, len(f.b))]
		}
		if i := bytes.Index(rest, binary.LittleEndian.AppendUint32(nil, number)); i >= 0 {
			first = off + i
		}
	}
	return first
}

// records calls do for every record that is whole and lost for every stretch
// of bytes without one, but not for the end of the file.
func (f *logFile) records(do func([]byte), lost func(from, to int)) {
	var record []byte
	open := false
	f.chunks(func(c chunk) {
		if c.first {
			record, open = record[:0], true
		}
		if !open {
			return // the beginning is lost
		}
		if record = append(record, c.data...); c.last {
			open = false
			do(record)
		}
	}, func(from, to int) {
		open = false
		if to >= 0 {
			lost(from, to)
		}
	})
}

// torn tells whether the file ends within a record.
func (f *logFile) torn() bool {
	open := false
	f.chunks(func(c chunk) { open = !c.last && !c.trailer }, func(_, to int) { open = to < 0 })
	return open
}

// damage is the first place where something is wrong that no power cut
// explains; -1 when there is none.
func (f *logFile) damage() int {
	place := -1
	var gaps []int
	f.chunks(func(c chunk) {
		for _, g := range gaps {
			// A log says how far it was synced. A manifest is synced record by
			// record, so that a record behind a gap is proof.
			if place < 0 && (c.synced > g || f.number == 0 && c.first) {
				place = g
			}
		}
	}, func(from, to int) {
		gaps = append(gaps, from)
	})
	if n := len(gaps); place < 0 && n > 0 && f.flipped(gaps[n-1]) {
		place = gaps[n-1]
	}
	return place
}

// flipped tells whether the chunk at off would be whole but for one bit, which
// a write that was cut off is not.
func (f *logFile) flipped(off int) bool {
	room := f.room(off)
	header := min(syncedHeader, room-off)
	for bit := range header * 8 {
		f.b[off+bit/8] ^= 1 << (bit % 8)
		_, ok := f.at(off)
		f.b[off+bit/8] ^= 1 << (bit % 8)
		if ok {
			return true
		}
	}
	header, end, ok := f.extent(off)
	if !ok || !f.mine(off, header) {
		return false
	}
	wrong := unmask(binary.LittleEndian.Uint32(f.b[off:])) ^ unmask(checksum(f.b[off+6:end]))
	return oneBit(wrong, end-off-6)
}

// oneBit tells whether the checksum of n bytes changes by diff when one of
// their bits does.
func oneBit(diff uint32, n int) bool {
	table := crc32.MakeTable(crc32.Castagnoli)
	var by [8]uint32 // of each bit of the byte that is looked at, from the last
	for i := range by {
		by[i] = table[1<<i]
	}
	for range n {
		for i := range by {
			if by[i] == diff {
				return true
			}
			by[i] = table[byte(by[i])] ^ by[i]>>8
		}
	}
	return false
}
