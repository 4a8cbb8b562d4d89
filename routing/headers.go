package routing

// Header is one header of a message or one argument of a binding. Value is one of: nil, bool, int8, int16, int32, int64,
// uint8, uint16, uint32, uint64, float32, float64, string, []byte, time.Time, [Decimal], [Headers] (a nested table),
// []any (a list of such values). Values are not changed after they were handed over.
type Header struct {
	Name  string
	Value any
}

// Headers is an ordered list of headers; a name may stand in it more than once.
type Headers []Header

// Decimal is Value divided by ten to the power of Scale, as AMQP 0-9-1 has it.
type Decimal struct {
	Scale uint8
	Value int32
}

// Get is the value of the first header with that name.
func (h Headers) Get(name string) (any, bool) {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value, true
		}
	}
	return nil, false
}
