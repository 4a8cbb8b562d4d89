package store

// Batch is a group of writes, done as a whole. The zero value is empty; not
// safe for concurrent use. The store copies it in Commit, so it can be reset
// and filled again.
type Batch struct {
	ops  []op
	data []byte
}

type opKind uint8

const (
	opSet opKind = iota
	opDelete
	opDeleteOnce
	opDeleteRange
)

// op's key and value lie one after the other in Batch.data.
type op struct {
	kind       opKind
	key, value int
}

func (b *Batch) add(kind opKind, key, value []byte) {
	b.ops = append(b.ops, op{kind, len(key), len(value)})
	b.data = append(append(b.data, key...), value...)
}

// Set writes a value.
func (b *Batch) Set(key, value []byte) { b.add(opSet, key, value) }

// SetBy writes what value appends to the slice that it is given and returns.
func (b *Batch) SetBy(key []byte, value func([]byte) []byte) {
	b.data = append(b.data, key...)
	n := len(b.data)
	b.data = value(b.data)
	b.ops = append(b.ops, op{opSet, len(key), len(b.data) - n})
}

// Set2 writes a value that comes in two parts.
func (b *Batch) Set2(key, value1, value2 []byte) {
	b.add(opSet, key, value1)
	b.ops[len(b.ops)-1].value += len(value2)
	b.data = append(b.data, value2...)
}

// Delete removes a key; one that is not there is no error.
func (b *Batch) Delete(key []byte) { b.add(opDelete, key, nil) }

// DeleteOnce removes a key that was set at most once since it was last removed;
// cheaper than Delete, as both then vanish where they meet.
func (b *Batch) DeleteOnce(key []byte) { b.add(opDeleteOnce, key, nil) }

// DeleteRange removes all keys from first on and before end.
func (b *Batch) DeleteRange(first, end []byte) { b.add(opDeleteRange, first, end) }

// Append adds the writes of another batch.
func (b *Batch) Append(o *Batch) {
	b.ops = append(b.ops, o.ops...)
	b.data = append(b.data, o.data...)
}

// Size is the bytes of keys and values.
func (b *Batch) Size() int { return len(b.data) }

// Len is the number of writes.
func (b *Batch) Len() int { return len(b.ops) }

// Reset empties the batch and keeps its memory, unless that is large.
func (b *Batch) Reset() {
	if cap(b.data) > 1<<20 {
		*b = Batch{}
		return
	}
	b.ops, b.data = b.ops[:0], b.data[:0]
}

// each calls f for every write in order.
func (b *Batch) each(f func(kind opKind, key, value []byte) error) error {
	at := 0
	for _, o := range b.ops {
		key := b.data[at : at+o.key]
		value := b.data[at+o.key : at+o.key+o.value]
		at += o.key + o.value
		if err := f(o.kind, key, value); err != nil {
			return err
		}
	}
	return nil
}
