package queue

import (
	"slices"
	"strings"
)

// recallSuffix is that of package engine. It ends the ID of a lease whose holder is sent a wake-up when another party
// wants the resource: one that it may keep unused for a while, or share with further readers.
const recallSuffix = "~"

// recall notes which holders need a wake-up, since the answer to a new request for the whole capacity is that it is the
// first to wait: those whose ID ends in the suffix. With a capacity of 1 it may be refused as well; readers use their lease, so
// there one that does not wait has nothing to gain. There is no other state of it, so
// a recall cannot be forgotten. A holder that was granted in this step has waited, so it knows that
// others want the resource. Of many holders those whose leases end first are looked at: as many as the portion allows, and
// at least one.
func (q *Queue) recall(r Request, a *Answer) {
	wants := a.Status == Queued && a.Position == 0 || a.Status == Busy && r.Ballot == 0 && q.capacity == 1
	if !wants || r.Weight != q.capacity || len(a.Grants) > 0 {
		return
	}
	for _, h := range q.byEnd.first(max(1, a.portion)) {
		a.portion--
		if strings.HasSuffix(h.ID, recallSuffix) && !h.Breaking {
			a.Wanted = append(a.Wanted, h.ID)
		}
	}
}

// first returns the n holders whose leases end first, in order.
func (d deadlines) first(n int) (all []*Holder) {
	for near := []int{0}; len(all) < n && len(near) > 0; {
		i := 0
		for k, at := range near {
			if at < len(d) && (near[i] >= len(d) || d.Less(at, near[i])) {
				i = k
			}
		}
		at := near[i]
		if near = slices.Delete(near, i, i+1); at < len(d) {
			all, near = append(all, d[at]), append(near, 2*at+1, 2*at+2)
		}
	}
	return all
}
