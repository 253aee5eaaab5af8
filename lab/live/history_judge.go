package live

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// historyJudge compares what one client recorded in the stores with what the lab saw of it. An acquire of a client that
// was killed may have ended, and have been recorded, before the lab saw it: as many as it has hands.
type historyJudge struct {
	seen     observed
	written  written
	wiped    time.Duration // the last time at which a store lost its data; 0: none
	copied   time.Duration // when the copy was made with which a store then went on; 0: there was none
	hands    int
	compared func(resource string) bool
	// ready reports whether an event of one instant must be in the store at another one.
	ready func(from, until time.Duration) bool
	// late is by how much what happened between two instants may be measured too late.
	late func(from, to time.Duration) time.Duration
	// broke reports whether an operator may have ended a lease before an instant.
	broke func(acquire history.Op, at time.Duration) bool
	found func(resource, format string, args ...any)

	cut    time.Duration // of a client that was killed: what ended before is in the store
	unseen int           // events of what the lab did not see
	sures  int           // events that had to be there
}

// rounding is how far two measures of one time may differ: the history has microseconds, and times of two clocks.
const rounding = time.Millisecond

// judge compares all, and returns how much that was.
func (j *historyJudge) judge() (n Recorded) {
	j.cut = j.lastWritten()
	keys := map[turn]bool{}
	for key := range j.seen.leases {
		keys[key] = true
	}
	for key := range j.written.ends {
		keys[key] = true
	}
	for key := range j.written.grants {
		keys[key] = true
	}
	for key := range keys {
		if j.compared(key.resource) {
			n.Turns++
			j.turn(key)
			n.Grants += j.grants(key)
		}
	}
	names := map[string]bool{}
	for name := range j.seen.waits {
		names[name] = true
	}
	for name := range j.written.waits {
		names[name] = true
	}
	for name := range names {
		if j.compared(name) {
			n.Waits += len(j.seen.waits[name])
			j.waits(name)
		}
	}
	if j.written.dropped > 0 {
		j.found("", "it dropped %d events: it cannot have had so many", j.written.dropped)
	}
	if j.unseen > j.hands {
		j.found("", "it recorded %d events of what the lab did not see, with %d hands", j.unseen, j.hands)
	}
	if j.seen.died > 0 && j.sures > 0 {
		n.Killed = 1
	}
	return n
}

// lastWritten returns the begin of the last lease of which the end is in the store. Events are written in their
// order, so all that ended before are there too.
func (j *historyJudge) lastWritten() (last time.Duration) {
	for key, all := range j.seen.leases {
		if len(all) == 1 && len(j.written.ends[key]) > 0 {
			last = max(last, all[0].acquire.Call)
		}
	}
	return last
}

// sure reports whether what ended at an instant has to be in the store.
func (j *historyJudge) sure(ended time.Duration) bool {
	stored := ended > j.wiped || j.copied > 0 && j.ready(ended, j.copied)
	sure := stored && (j.seen.died == 0 || ended < j.cut || j.ready(ended, j.seen.died))
	if sure {
		j.sures++
	}
	return sure
}

// turn compares the ends of the leases of one key, and their times.
func (j *historyJudge) turn(key turn) {
	var must, may, got ends
	for _, x := range j.seen.leases[key] {
		sure := x.release.Kind != "" && j.sure(x.release.Return)
		must.count(x.release, sure)
		may.count(x.release, true)
	}
	for _, e := range j.written.ends[key] {
		if e.Event == holdfast.HistoryReleased {
			got.released++
		} else {
			got.lost++
		}
		if len(j.seen.leases[key]) > 0 && !slices.ContainsFunc(j.seen.leases[key], func(x *lifetime) bool { return j.fits(e, x) }) {
			x := *j.seen.leases[key][0]
			j.found(key.resource, "token %d: the history in the store has held %v, waited %v; the lab saw acquire %v to %v, release %v to %v, lost %v",
				key.token, e.Held, e.Waited, x.acquire.Call, x.acquire.Return, x.release.Call, x.release.Return, x.lost)
		}
	}
	if len(j.seen.leases[key]) == 0 && j.seen.died > 0 {
		j.unseen++
		return
	}
	if !got.between(must, may) {
		j.found(key.resource, "token %d: the history in the store has %+v; at least %+v and at most %+v of it were seen (killed at %v, data lost at %v)",
			key.token, got, must, may, j.seen.died, j.wiped)
	}
}

// ends counts how turns of one key ended.
type ends struct{ released, lost, unclear int }

// count counts an end. A lease without one was released, or lost, when its client was killed, or not.
func (e *ends) count(release history.Op, counts bool) {
	switch {
	case !counts:
	case release.Outcome == history.OK:
		e.released++
	case release.Outcome == history.Failed:
		e.lost++
	default:
		e.unclear++
	}
}

func (e ends) all() int { return e.released + e.lost + e.unclear }

// between reports whether what a client recorded is at least what must be there, and at most what may be. A release
// whose outcome is unknown may be recorded as a loss.
func (e ends) between(must, may ends) bool {
	return e.all() >= must.all() && e.all() <= may.all() &&
		e.released >= must.released && e.released <= may.released+may.unclear &&
		e.lost >= must.lost && e.lost <= may.lost+may.unclear
}

// fits reports whether the times of an end fit a lease. The lab sees the call of a release, and not the moment of a loss.
func (j *historyJudge) fits(e holdfast.HistoryEvent, x *lifetime) bool {
	if e.Waited > 0 && !j.waited(e.Waited, x.acquire) {
		return false
	}
	from, to := x.acquire.Return, x.acquire.Call
	switch {
	case e.Event == holdfast.HistoryReleased && x.release.Kind != "":
		return e.Held >= x.release.Call-from-rounding && e.Held <= x.release.Return-to+rounding
	case x.release.Kind != "":
		late := j.late(x.acquire.Call, x.release.Return)
		return e.Held <= x.release.Return-to+late && (x.lost == 0 || e.Held >= x.lost-from-late)
	}
	return e.Held <= j.seen.died-to+j.late(x.acquire.Call, j.seen.died)
}

// waited reports whether a recorded wait fits an acquire.
func (j *historyJudge) waited(d time.Duration, acquire history.Op) bool {
	took := acquire.Return - acquire.Call
	return d <= took+rounding && d >= took-j.late(acquire.Call, acquire.Return)
}

// grants compares the grants of one key: an event of its own has one of a lease that was held for longer than it takes to
// write it. It returns how many had to be there.
func (j *historyJudge) grants(key turn) (n int) {
	all, got := j.seen.leases[key], j.written.grants[key]
	if len(all) == 0 {
		return 0 // turn has counted it
	}
	if len(got) > len(all) {
		j.found(key.resource, "token %d: the history in the store has %d grants of %d leases", key.token, len(got), len(all))
	}
	for _, e := range got {
		if !slices.ContainsFunc(all, func(x *lifetime) bool { return j.waited(e.Waited, x.acquire) }) {
			j.found(key.resource, "token %d: the history in the store has waited %v; the lab saw acquire %v to %v", key.token, e.Waited, all[0].acquire.Call, all[0].acquire.Return)
		}
	}
	x, until := all[0], all[0].release.Call
	if x.release.Kind == "" {
		until = j.seen.died
	}
	ended := x.release.Kind != "" && x.release.Outcome != history.OK || x.lost > 0 || j.broke(x.acquire, until)
	if len(all) > 1 || ended || x.acquire.Return <= j.wiped || !j.ready(x.acquire.Return, until) {
		return 0
	}
	j.sures++
	if len(got) == 0 {
		j.found(key.resource, "token %d: the history in the store has no grant, although it was held from %v to %v", key.token, x.acquire.Return, until)
	}
	return 1
}

// waits compares the waits for a resource that ended without a lease, and how long they were, from the longest down.
func (j *historyJudge) waits(resource string) {
	must, may, got := 0, j.seen.waits[resource], j.written.waits[resource]
	for _, op := range may {
		if j.sure(op.Return) {
			must++
		}
	}
	if j.seen.died > 0 && len(got) > len(may) {
		j.unseen += len(got) - len(may)
		return
	}
	if len(got) < must || len(got) > len(may) {
		j.found(resource, "the history in the store has %d waits that ended without a lease; at least %d and at most %d were seen (killed at %v, data lost at %v)",
			len(got), must, len(may), j.seen.died, j.wiped)
		return
	}
	var longest, most, least []time.Duration
	for _, e := range got {
		longest = append(longest, e.Waited)
	}
	for _, op := range may {
		took := op.Return - op.Call
		most, least = append(most, took+rounding), append(least, took-j.late(op.Call, op.Return))
	}
	down := func(a, b time.Duration) int { return cmp.Compare(b, a) }
	for _, all := range [][]time.Duration{longest, most, least} {
		slices.SortFunc(all, down)
	}
	for i, d := range longest {
		if d > most[i] || len(got) == len(may) && d < least[i] {
			j.found(resource, "the history in the store has waits without a lease of %v; the lab saw at most %v and at least %v", longest, most, least)
			return
		}
	}
}
