package bench

import "encoding/binary"

// A payload begins with numbers in digits of six bits, '0' to 'o', so that it
// is text for every broker: eight digits for publisher and run, eight for the
// sequence number, and where latency is measured eight for the time of
// sending in nanoseconds since the start of the run (0: not stamped).
const (
	payloadHead    = 16
	payloadStamped = 24
	digitBits      = 48
	digitZero      = 0x3030303030303030
	hexZero        = 0x3030303030303030
)

// digits writes the low 48 bits of v as eight digits, the highest first.
func digits(v uint64) uint64 {
	v = v&0xFFFFFF | v>>24&0xFFFFFF<<32
	v = v&0x00000FFF_00000FFF | v&0x00FFF000_00FFF000<<4
	v = v&0x003F003F_003F003F | v&0x0FC00FC0_0FC00FC0<<2
	return v + digitZero
}

// number reads what digits wrote. Other bytes give some number.
func number(d uint64) uint64 {
	d = (d - digitZero) & 0x3F3F3F3F_3F3F3F3F
	d = d&0x003F003F_003F003F | d>>2&0x0FC00FC0_0FC00FC0
	d = d&0x00000FFF_00000FFF | d>>4&0x00FFF000_00FFF000
	return d&0xFFFFFF | d>>8&0xFFFFFF000000
}

// hexDigits writes v as eight lower-case hexadecimal digits, which need no
// escape in a STOMP header.
func hexDigits(v uint32) uint64 {
	x := uint64(v)
	x = x&0xFFFF | x>>16<<32
	x = x&0x000000FF_000000FF | x&0x0000FF00_0000FF00<<8
	x = x&0x000F000F_000F000F | x&0x00F000F0_00F000F0<<4
	letters := (x + 0x06060606_06060606) >> 4 & 0x01010101_01010101
	return x + hexZero + letters*('a'-'0'-10)
}

// payloadOf is the head of all payloads of one publisher in one run.
func payloadOf(publisher int, run uint32) uint64 {
	return digits(uint64(publisher)<<24 | uint64(run&0xFFFFFF))
}

// publisherOf takes a head apart.
func publisherOf(head uint64) (publisher int, run uint32) {
	v := number(head)
	return int(v >> 24), uint32(v & 0xFFFFFF)
}

func putDigits(at []byte, v uint64) { binary.BigEndian.PutUint64(at, digits(v)) }
func getDigits(at []byte) uint64    { return number(binary.BigEndian.Uint64(at)) }
