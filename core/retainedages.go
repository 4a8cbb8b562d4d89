package core

import (
	"slices"
	"sort"
)

// retainedAges are the retained values from the oldest to the newest. A reader
// keeps its place as a version, so that however many read, and however slowly,
// nothing is kept for them. Guarded by the store's mu.
type retainedAges struct{ runs []retainedRun }

// retainedRun holds neighbours, at most runLength; it is never empty.
type retainedRun struct {
	from   uint64 // no version in it is less, none before it is as large
	values []agedValue
}

type agedValue struct {
	version uint64
	value   *retainedValue
}

const runLength = 512

// add puts a value that is newer than all others at the end.
func (a *retainedAges) add(v *retainedValue) {
	n := len(a.runs)
	if n == 0 || len(a.runs[n-1].values) >= runLength {
		a.runs = append(a.runs, retainedRun{from: v.version})
		n++
	}
	last := &a.runs[n-1]
	last.values = append(last.values, agedValue{v.version, v})
}

// remove takes a value out.
func (a *retainedAges) remove(v *retainedValue) {
	i, k := a.find(v.version)
	run := &a.runs[i]
	run.values = slices.Delete(run.values, k, k+1)
	switch {
	case len(run.values) == 0:
		a.runs = slices.Delete(a.runs, i, i+1)
	case i+1 < len(a.runs) && len(run.values)+len(a.runs[i+1].values) <= runLength/2:
		run.values = append(run.values, a.runs[i+1].values...)
		a.runs = slices.Delete(a.runs, i+1, i+2)
	}
}

// find is where the first value of at least that version is; a place behind a
// run's last value means the next run's first.
func (a *retainedAges) find(version uint64) (run, place int) {
	run = max(sort.Search(len(a.runs), func(i int) bool { return a.runs[i].from > version })-1, 0)
	if run == len(a.runs) {
		return run, 0
	}
	values := a.runs[run].values
	return run, sort.Search(len(values), func(i int) bool { return values[i].version >= version })
}

// each visits the values of versions from first to last, in that order, until
// visit returns false.
func (a *retainedAges) each(first, last uint64, visit func(*retainedValue) bool) {
	run, place := a.find(first)
	for ; run < len(a.runs); run, place = run+1, 0 {
		for _, v := range a.runs[run].values[place:] {
			if v.version > last || !visit(v.value) {
				return
			}
		}
	}
}
