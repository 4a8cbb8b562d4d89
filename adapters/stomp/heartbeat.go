package stomp

import (
	"bytes"
	"time"
)

// longestBeat is more than anybody waits for: one day in milliseconds.
const longestBeat = 24 * 60 * 60 * 1000

// parseHeartBeat reads "can,want" in milliseconds (STOMP 1.2, Heart-beating).
func parseHeartBeat(b []byte) (can, want time.Duration, err error) {
	x, y, ok := bytes.Cut(b, []byte{','})
	if ok {
		var nx, ny int
		var okx, oky bool
		nx, okx = decimal(bytes.TrimSpace(x))
		ny, oky = decimal(bytes.TrimSpace(y))
		if okx && oky {
			return time.Duration(min(nx, longestBeat)) * time.Millisecond,
				time.Duration(min(ny, longestBeat)) * time.Millisecond, nil
		}
	}
	return 0, 0, malformed("heart-beat must be two numbers of milliseconds: %.40q", b)
}

// beat is the interval for one direction: the longer of what one side can and the
// other wants, none when either says 0.
func beat(can, want time.Duration) time.Duration {
	if can == 0 || want == 0 {
		return 0
	}
	return max(can, want)
}
