package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/sstable/block/blockkind"
	"github.com/cockroachdb/pebble/v2/sstable/colblk"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// table reads one of the database's tables block by block, around the damaged
// ones, which the database's own reader does not. At the end of a table stand
// the places of two blocks: the index, of one or two levels, which has the
// places of the data, and one with the places of all else.
type table struct {
	file     objstorage.Readable
	blocks   block.Reader
	index    block.Handle
	levels   int
	rest     map[string]block.Handle
	restErr  error
	recorded uint64 // keys in it when it was made; 0: not known
}

// The end of a table: checksum kind 1, two handles, filled up, attributes 4,
// checksum 4, version 4, magic 8.
const (
	tableFooter  = 61
	tableHandles = 41
	tableVersion = 7
	tableMagic   = "\xf0\x9f\xaa\xb3\xf0\x9f\xaa\xb3"
)

var errTable = errors.New("its end, which says where all is, is damaged")

// openTable fails when nothing of a table can be found.
func openTable(fs vfs.FS, name string) (*table, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	file, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t := &table{file: file, levels: 1}
	if err := t.footer(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return t, nil
}

func (t *table) close() error { return errors.Join(t.blocks.Close()) }

// footer finds the two blocks.
func (t *table) footer() error {
	b := make([]byte, tableFooter)
	if t.file.Size() < tableFooter {
		return errTable
	}
	if err := t.file.ReadAt(context.Background(), b, t.file.Size()-tableFooter); err != nil {
		return err
	}
	sum := checksum(append(append([]byte(nil), b[:tableHandles+4]...), b[tableHandles+8:]...))
	if string(b[tableFooter-8:]) != tableMagic || binary.LittleEndian.Uint32(b[tableHandles+8:]) != tableVersion ||
		binary.LittleEndian.Uint32(b[tableHandles+4:]) != sum {
		return errTable
	}
	if sstable.Attributes(binary.LittleEndian.Uint32(b[tableHandles:])).Has(sstable.AttributeTwoLevelIndex) {
		t.levels = 2
	}
	rest, n := block.DecodeHandle(b[1:])
	t.index, _ = block.DecodeHandle(b[1+n:])
	t.blocks.Init(t.file, blockOptions(), block.ChecksumType(b[0]))
	t.rest, t.restErr = t.handles(rest)
	t.recorded = t.entries()
	return nil
}

// blockOptions are for reading without a cache. A read that takes longer than
// some milliseconds asks the tracer, so there has to be one.
func blockOptions() block.ReaderOptions { return block.ReaderOptions{LoggerAndTracer: untraced{}} }

// untraced is a pebble.LoggerAndTracer that is told nothing.
type untraced struct{}

func (untraced) Infof(string, ...any)                   {}
func (untraced) Errorf(string, ...any)                  {}
func (untraced) Fatalf(string, ...any)                  {}
func (untraced) Eventf(context.Context, string, ...any) {}
func (untraced) IsTracingEnabled(context.Context) bool  { return false }

// read reads one block.
func (t *table) read(h block.Handle, kind block.Kind, init func(*block.Metadata, []byte) error) (b block.BufferHandle, err error) {
	defer func() {
		if r := recover(); r != nil { // the checksum is right and the content is not
			err = fmt.Errorf("block at %d: %v", h.Offset, r)
		}
	}()
	return t.blocks.Read(context.Background(), block.NoReadEnv, nil, h, kind, init)
}

func noMetadata(*block.Metadata, []byte) error { return nil }

// handles are the places of all blocks but the index and the data.
func (t *table) handles(h block.Handle) (map[string]block.Handle, error) {
	b, err := t.read(h, blockkind.Metadata, noMetadata)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	handles := map[string]block.Handle{}
	var d colblk.KeyValueBlockDecoder
	d.Init(b.BlockData())
	for k, v := range d.All() {
		handles[string(k)], _ = block.DecodeHandle(v)
	}
	return handles, nil
}

// entries is the number of keys that the table was made with.
func (t *table) entries() uint64 {
	h, ok := t.rest["rocksdb.properties"]
	if !ok {
		return 0
	}
	b, err := t.read(h, blockkind.Metadata, noMetadata)
	if err != nil {
		return 0
	}
	defer b.Release()
	var d colblk.KeyValueBlockDecoder
	d.Init(b.BlockData())
	for k, v := range d.All() {
		if string(k) == "rocksdb.num.entries" {
			n, _ := binary.Uvarint(v)
			return n
		}
	}
	return 0
}

// span is a run of keys that one block has, or had.
type span struct {
	h    block.Handle
	last []byte // no key of it is behind this one
	err  error  // the block that had its place is damaged: it stands for many
}

// spans are the table's data blocks in order.
func (t *table) spans() ([]span, error) { return t.spansOf(span{h: t.index}, t.levels) }

func (t *table) spansOf(of span, levels int) ([]span, error) {
	b, err := t.read(of.h, blockkind.Index, colblk.InitIndexBlockMetadata)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	var it colblk.IndexIter
	if err := it.Init(pebble.DefaultComparer, b.BlockData(), block.IterTransforms{}); err != nil {
		return nil, err
	}
	var all []span
	for ok := it.First(); ok; ok = it.Next() {
		h, err := it.BlockHandleWithProperties()
		if err != nil {
			return all, err
		}
		s := span{h: h.Handle, last: bytes.Clone(it.Separator())}
		if levels == 1 {
			all = append(all, s)
			continue
		}
		below, err := t.spansOf(s, levels-1)
		if all = append(all, below...); err != nil {
			all = append(all, span{last: s.last, err: err})
		}
	}
	return all, nil
}

// each calls f for the keys of one data block, until it returns false.
func (t *table) each(s span, f func(record) bool) (err error) {
	if s.err != nil {
		return s.err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("block at %d: %v", s.h.Offset, r)
		}
	}()
	schema := colblk.DefaultKeySchema(pebble.DefaultComparer, keyBundle)
	b, err := t.read(s.h, blockkind.SSTableData, func(m *block.Metadata, data []byte) error {
		return colblk.InitDataBlockMetadata(&schema, m, data)
	})
	if err != nil {
		return err
	}
	var it colblk.DataBlockIter
	it.InitOnce(&schema, pebble.DefaultComparer, nil)
	if err := it.InitHandle(pebble.DefaultComparer, b, block.IterTransforms{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for kv := it.First(); kv != nil; kv = it.Next() {
		r := record{key: kv.K.UserKey, seq: uint64(kv.SeqNum()), kind: kv.Kind(), value: kv.InPlaceValue()}
		if !f(r) {
			return nil
		}
	}
	return it.Error()
}

// keyBundle is the database's default for how it packs keys.
const keyBundle = 16

// removals are the table's range removals.
func (t *table) removals() (all []removal, err error) {
	h, ok := t.rest["rocksdb.range_del2"]
	if !ok {
		return nil, t.restErr
	}
	b, err := t.read(h, blockkind.RangeDel, colblk.InitKeyspanBlockMetadata)
	if err != nil {
		return nil, err
	}
	it := colblk.NewKeyspanIter(bytes.Compare, b, block.FragmentIterTransforms{})
	defer it.Close()
	s, err := it.First()
	for ; s != nil && err == nil; s, err = it.Next() {
		for _, k := range s.Keys {
			all = append(all, removal{bytes.Clone(s.Start), bytes.Clone(s.End), uint64(k.SeqNum())})
		}
	}
	return all, err
}
