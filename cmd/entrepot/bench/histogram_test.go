package bench

import (
	"testing"
	"time"
)

func TestBucketsCoverAllTimes(t *testing.T) {
	last := -1
	for _, v := range []uint64{0, 1, 31, 32, 33, 63, 64, 66, 1000, 1 << 20, 1<<40 + 12345, 1<<63 - 1} {
		i := bucketOf(v)
		if i <= last {
			t.Errorf("bucket %d of %d does not come after %d", i, v, last)
		}
		if last = i; upperOf(i) < v || float64(upperOf(i)) > float64(v)*1.04 {
			t.Errorf("bucket %d of %d ends at %d", i, v, upperOf(i))
		}
	}
}

func TestQuantiles(t *testing.T) {
	var a, b histogram
	for i := range 500 {
		a.add(time.Duration(2*i+1) * time.Microsecond)
		b.add(time.Duration(2*i+2) * time.Microsecond)
	}
	a.merge(&b)
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 500 * time.Microsecond}, {0.99, 990 * time.Microsecond}, {1, time.Millisecond}} {
		got := a.quantile(tt.q)
		if got < tt.want || float64(got) > 1.04*float64(tt.want) {
			t.Errorf("quantile %v is %v, want %v", tt.q, got, tt.want)
		}
	}
}
