package live

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Promises of time and order are judged in runs without faults of processes, connections and
// stores, and in which the machine did not stall for long. The bounds grow with the stalls
// that there were.
const (
	// steadyFor is the longest stall with which such a run is judged.
	steadyFor = 250 * time.Millisecond
	// handedOff and freeFor are how long a hand-off may take, and how long a resource may be
	// free while somebody waits for it.
	handedOff, freeFor = 150 * time.Millisecond, 300 * time.Millisecond
	// poll is added to both where a hand-off may take one: on a quorum, whose waiters try again
	// by themselves, and on stores other than Redis, whose wake-ups may lag behind their writes.
	poll = 1500 * time.Millisecond
	// sameTime and sameTimeOfDocuments are how close two calls may be for their order in the store to be unknown without a
	// stall between them: a document is written again after a conflict, and newcomers join within some 2 s (docs/GUARANTEES.md).
	sameTime, sameTimeOfDocuments = 40 * time.Millisecond, 2 * time.Second
	// lateness is by how many stalls a call may be late.
	lateness = 4
	// seen is how much longer than the interval of renewals the notice of a break may take.
	seen = 150 * time.Millisecond
)

// calm reports whether the program has no fault, or only breaks of leases.
func (r *run) calm(but ...fault.Kind) bool {
	return !slices.ContainsFunc(r.faults, func(f fault.Fault) bool { return !slices.Contains(but, f.Kind) })
}

// steady reports whether order and times are judged.
func (r *run) steady() bool {
	return r.p.holdfast() && longestStall(r.lasting()) <= steadyFor && len(r.roles.promotions()) == 0
}

// lasting returns the stalls without those of single connections: a client that waits for one of them has others.
func (r *run) lasting() []Stall {
	return slices.DeleteFunc(r.stalls(), func(s Stall) bool { return s.Kind == trip })
}

// calmly returns the violations of promises of time and order.
func (r *run) calmly(ops []history.Op) (out []check.Violation) {
	if !r.steady() {
		return nil
	}
	late, passing, same := lateness*longestStall(r.lasting()), time.Duration(0), sameTime
	documents := !r.p.store().Scripts
	if documents {
		same = sameTimeOfDocuments
	}
	if documents || r.p.Nodes > 1 {
		passing = poll
	}
	if r.calm() {
		all := r.stalls()
		apart := func(client string, earlier, later time.Duration) bool {
			// A waiter whose request is on its way is not in the line yet.
			hit := slices.DeleteFunc(between(all, earlier, later), func(s Stall) bool { return s.Kind == trip && s.Client != client })
			return later-earlier > same+lateness*longestStall(hit)
		}
		out = append(out, check.Starvation(0, apart).Find(r.ordered(ops))...)
		out = append(out, check.HandOff(0, handedOff+passing+late, apart).Find(r.exclusive(ops))...)
		out = append(out, check.Signals(wokenIn+handedOff+passing+late).Find(ops)...)
		out = append(out, check.Opens(handedOff+passing+late).Find(ops)...)
		out = append(out, check.Deadlock(freeFor+passing+late).Find(r.single(ops))...)
	}
	if r.calm(fault.Break) && !slices.Contains(r.p.Ways, NoRenewal) {
		heard := func(string) time.Duration { return r.p.TTL*36/100 + seen + passing + late }
		out = append(out, check.EndSeen(heard).Find(append(slices.Clone(ops), r.ops.breaks(ops)...))...)
	}
	return out
}

// ordered returns the operations on resources that are served strictly first come, first
// served: with no tries, and without tenure, which a semaphore does not have.
func (r *run) ordered(ops []history.Op) []history.Op {
	if r.p.Nodes > 1 || slices.Contains(r.p.Ways, Try) {
		return nil
	}
	return r.of(ops, func(x Resource) bool {
		tenure := slices.Contains(r.p.Ways, Plain) && x.Kind != Semaphore && x.Kind != Election
		return x.locked() && !x.waitsTwice() && !tenure
	})
}

// exclusive returns the operations on mutexes.
func (r *run) exclusive(ops []history.Op) []history.Op {
	return r.of(ops, func(x Resource) bool { return x.Kind != Pair && x.Kind != Semaphore && !x.waitsTwice() && x.locked() })
}

// single returns the operations on resources for which an acquire waits all the time.
func (r *run) single(ops []history.Op) []history.Op {
	return r.of(ops, func(x Resource) bool { return !x.waitsTwice() })
}

// waitsTwice reports whether an acquire may wait for something else first: for another part of a Multi, or for a condition.
func (r Resource) waitsTwice() bool { return r.Kind == Several || r.Kind == Cond }

// of selects the operations on some resources.
func (r *run) of(ops []history.Op, want func(Resource) bool) []history.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		return !slices.ContainsFunc(r.p.Resources, func(x Resource) bool { return x.Name == op.Resource && want(x) })
	})
}
