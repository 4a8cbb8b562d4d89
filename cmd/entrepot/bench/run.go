package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
)

// Run does the measurement that o describes. When the broker fails on the way
// or ctx ends, it returns the error together with what it saw until then: a
// Result without Kind when it saw nothing.
// Losses are no errors; the result counts them. For as long as it runs it sets
// the process's GOMAXPROCS to o.Procs.
func Run(ctx context.Context, o Options) (Result, error) {
	publish, subscribe, err := o.complete()
	if err != nil {
		return Result{}, err
	}
	links := o.Publishers + o.Subscribers
	if o.Kind == Observe {
		links = o.Publishers * (o.Subscribers + 1)
	}
	if o.Kind == Idle {
		links = o.Connections + 1
	}
	if err := raiseFileLimit(links + 64); err != nil {
		return Result{}, err
	}
	if o.Procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Procs))
	}
	run := rand.Uint32() & 0xFFFFFF
	var r Result
	if coapKinds[o.Kind] != nil {
		r, err = runCoap(ctx, &o, publish)
	} else if o.Kind == Idle {
		r, err = idleRun(ctx, &o, subscribe, publish, run)
	} else {
		r, err = trafficRun(ctx, &o, publish, subscribe, run)
	}
	if r.Seconds > 0 {
		r.describe(&o, publish, subscribe)
	}
	if err != nil {
		return r, fmt.Errorf("bench %s: %w", o.Kind, err)
	}
	return r, nil
}
