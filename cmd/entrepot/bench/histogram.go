package bench

import (
	"math/bits"
	"time"
)

// histogram counts times in buckets that are 1/32 wide of their value, so a
// quantile is exact to about 3 %.
type histogram struct {
	counts  [64 * histogramSteps]uint64
	total   uint64
	longest time.Duration
}

const (
	histogramBits  = 5
	histogramSteps = 1 << histogramBits
)

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.total++
	h.longest = max(h.longest, d)
}

func bucketOf(v uint64) int {
	if v < histogramSteps {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - histogramBits
	return (shift+1)<<histogramBits + int(v>>shift) - histogramSteps
}

// upperOf is the highest value in bucket i.
func upperOf(i int) uint64 {
	if i < histogramSteps {
		return uint64(i)
	}
	shift := i>>histogramBits - 1
	return uint64(i&(histogramSteps-1)+histogramSteps+1)<<shift - 1
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.longest = max(h.longest, other.longest)
}

// quantile is the time that the share q of all samples does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.total))
	var below uint64
	for i, n := range h.counts {
		if below += n; below > rank {
			return min(time.Duration(upperOf(i)), h.longest)
		}
	}
	return h.longest
}
