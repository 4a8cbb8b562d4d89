package store

import (
	"encoding/binary"
	"errors"
)

// manifest is what the database's manifest says: which tables there are and
// from which log on there is more. The database's own reader is not for others
// to call, and stops at damage.
type manifest struct {
	tables map[uint64]tableInfo // those that are alive, by number
	gone   map[uint64]bool      // those that were and are not
	oldest uint64               // the first log that counts
	backed bool                 // a table's number may not be its file's
}

// tableInfo is a table as the manifest has it.
type tableInfo struct {
	size        uint64
	first, last []byte // keys
}

var errManifest = errors.New("manifest: not understood")

// Tags of what a manifest's record holds.
const (
	tagComparer   = 1
	tagOldestLog  = 2
	tagNextFile   = 3
	tagLastSeq    = 4
	tagPointer    = 5
	tagDeleted    = 6
	tagPrevLog    = 9
	tagTable      = 103
	tagBacking    = 105
	tagNoBacking  = 106
	tagTableEnd   = 1
	tagTableOther = 64 // a table's tags from here on change what it is
)

// readManifest reads what is whole.
func readManifest(b []byte) (m *manifest, whole bool) {
	m = &manifest{tables: map[uint64]tableInfo{}, gone: map[uint64]bool{}}
	f := &logFile{b: b}
	whole = f.damage() < 0
	f.records(func(record []byte) {
		if m.edit(record) != nil {
			whole = false
		}
	}, func(int, int) { whole = false })
	return m, whole
}

// edit does what one record says.
func (m *manifest) edit(record []byte) error {
	d := &fields{b: record}
	for len(d.b) > 0 && !d.bad {
		switch d.number() {
		case tagComparer:
			d.bytes()
		case tagOldestLog:
			m.oldest = max(m.oldest, d.number())
		case tagNextFile, tagLastSeq, tagPrevLog, tagNoBacking:
			d.number()
		case tagBacking:
			m.backed = true
			d.number()
			d.number()
		case tagPointer:
			d.number()
			d.bytes()
		case tagDeleted:
			d.number() // level
			n := d.number()
			delete(m.tables, n)
			m.gone[n] = true
		case tagTable:
			m.table(d)
		default:
			d.bad = true
		}
	}
	if d.bad {
		return errManifest
	}
	return nil
}

// table adds one, or moves it to another level.
func (m *manifest) table(d *fields) {
	d.number() // level
	n := d.number()
	t := tableInfo{size: d.number(), first: userKey(d.bytes()), last: userKey(d.bytes())}
	d.number() // sequence numbers
	d.number()
	for tag := d.number(); tag != tagTableEnd && !d.bad; tag = d.number() {
		if d.bytes(); tag >= tagTableOther {
			d.bad = true // nothing that this store makes
		}
	}
	if !d.bad {
		m.tables[n] = t
		delete(m.gone, n)
	}
}

// userKey is a key without its sequence number and kind.
func userKey(b []byte) []byte {
	if len(b) < 8 {
		return nil
	}
	return append([]byte(nil), b[:len(b)-8]...)
}

// fields takes values off b; once something does not fit it is bad.
type fields struct {
	b   []byte
	bad bool
}

func (d *fields) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *fields) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}
