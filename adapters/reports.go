package adapters

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// reportEvery is the time between two lines at info of one kind.
const reportEvery = time.Minute

// reports tells the log of what clients can make happen as often as they like:
// each time at debug, and at info once in reportEvery at most, with the number of
// those that were not told. Who wants all of them has the metrics. The zero value
// is ready; tell may be called from any goroutine.
type reports struct {
	mu     sync.Mutex
	next   time.Time // when one may be told at info
	untold int
}

func (r *reports) tell(log *slog.Logger, what string, args ...any) {
	level := slog.LevelDebug
	if untold, ok := r.due(time.Now()); ok {
		level = slog.LevelInfo
		if untold > 0 {
			args = append(args, "more_since_last_line", untold)
		}
	}
	log.Log(context.Background(), level, what, args...)
}

// due tells whether one may be told at info now, and how many were not.
func (r *reports) due(now time.Time) (untold int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.next) {
		r.untold++
		return 0, false
	}
	untold, r.untold, r.next = r.untold, 0, now.Add(reportEvery)
	return untold, true
}
