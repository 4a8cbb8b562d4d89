package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestDigitsRoundTrip(t *testing.T) {
	values := []uint64{0, 1, 63, 64, 4095, 4096, 1<<24 - 1, 1 << 24, 1<<48 - 1}
	for range 1000 {
		values = append(values, rand.Uint64()>>16)
	}
	for _, v := range values {
		d := digits(v)
		if got := number(d); got != v {
			t.Fatalf("number(digits(%#x)) = %#x", v, got)
		}
		text := binary.BigEndian.AppendUint64(nil, d)
		if i := strings.IndexFunc(string(text), func(r rune) bool { return r < '0' || r > 'o' }); i >= 0 {
			t.Fatalf("digits(%#x) = %q holds something else", v, text)
		}
	}
}

func TestDigitsAreReadable(t *testing.T) {
	if got := string(binary.BigEndian.AppendUint64(nil, digits(65))); got != "00000011" {
		t.Errorf("digits(65) = %q", got)
	}
}

func TestHexDigits(t *testing.T) {
	for _, v := range []uint32{0, 9, 10, 15, 16, 0x89ABCDEF, 1<<32 - 1, rand.Uint32()} {
		got := string(binary.BigEndian.AppendUint64(nil, hexDigits(v)))
		if want := fmt.Sprintf("%08x", v); got != want {
			t.Errorf("hexDigits(%d) = %q, want %q", v, got, want)
		}
	}
}

func TestHeadNamesPublisherAndRun(t *testing.T) {
	p, run := publisherOf(payloadOf(70_000, 0xABCDEF))
	if p != 70_000 || run != 0xABCDEF {
		t.Errorf("got publisher %d of run %x", p, run)
	}
}
