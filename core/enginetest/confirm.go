package enginetest

import (
	"testing/synctest"

	"entrepot/core"
)

func confirmTests() []test {
	return []test{
		{"Done comes once, when the message is in its queues", confirmed},
		{"without Done nothing is told", unconfirmed},
		{"an unknown exchange is refused", unknownExchange},
		{"many in flight are each confirmed", confirmMany},
	}
}

func confirmed(r *rig) {
	k := r.queue("q")
	var ready int
	var res result
	done := func(routed bool, err error) {
		ready = r.info(k).Messages
		r.done(&res)(routed, err)
	}
	r.engine.Publish(r.batch, r.message("", "q", "1"), done)
	synctest.Wait()
	if res != (result{1, true, nil}) || ready != 1 {
		r.Fatalf("Done said %+v with %d ready", res, ready)
	}
}

func unconfirmed(r *rig) {
	k := r.queue("q")
	r.engine.Publish(r.batch, r.message("", "q", "1"), nil)
	r.engine.Publish(r.batch, r.message("", "nobody", "2"), nil)
	r.engine.Publish(r.batch, r.message("nowhere", "q", "3"), nil)
	r.engine.Apply(r.batch, []core.Op{{Message: r.message("nowhere", "q", "4")}}, nil)
	r.wantInfo(k, 1, 0, 1)
}

func unknownExchange(r *rig) {
	r.queue("q")
	routed, err := r.publish(r.message("nowhere", "q", "1"))
	r.wantError(err, core.ErrNotFound)
	if routed {
		r.Fatal("routed beside an error")
	}
}

func confirmMany(r *rig) {
	k := r.queue("q")
	results := make([]result, 500)
	for i := range results {
		r.engine.Publish(r.batch, r.message("", "q", "x"), r.done(&results[i]))
	}
	synctest.Wait()
	for i, res := range results {
		if res != (result{1, true, nil}) {
			r.Fatalf("message %d: Done said %+v", i, res)
		}
	}
	r.wantInfo(k, len(results), 0, int64(len(results)))
}
