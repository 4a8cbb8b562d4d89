package adapters

import (
	"os"
	"runtime/pprof"
)

// profile writes a processor profile of the relay's process.
func profile(path string) func() {
	f, err := os.Create(path)
	if err != nil {
		return func() {}
	}
	_ = pprof.StartCPUProfile(f)
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
}
