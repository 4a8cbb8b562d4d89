package routing

import "unsafe"

// sameMemory tells whether part lies within the memory of text.
func sameMemory(part, text string) bool {
	p, t := uintptr(unsafe.Pointer(unsafe.StringData(part))), uintptr(unsafe.Pointer(unsafe.StringData(text)))
	return p >= t && p < t+uintptr(len(text))
}
