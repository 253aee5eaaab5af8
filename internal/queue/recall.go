package queue

import "strings"

// recallSuffix is that of package engine. It ends the ID of a lease that its holder may keep unused for a while, and
// releases when another party wants the resource.
const recallSuffix = "~"

// recall notes that the holder of a resource of capacity 1 needs a wake-up, if its ID ends in the suffix and
// the answer to a new request is that it is the first to wait, or refused. There is no other state of it, so
// a recall cannot be forgotten. A holder that was granted in this step has waited, so it knows that
// others want the resource.
func (q *Queue) recall(r Request, a *Answer) {
	wants := a.Status == Queued && a.Position == 0 || a.Status == Busy && r.Ballot == 0
	if !wants || q.capacity != 1 || len(q.byEnd) == 0 || len(a.Grants) > 0 {
		return
	}
	if h := q.byEnd[0]; strings.HasSuffix(h.ID, recallSuffix) && !h.Breaking {
		a.Wanted = h.ID
	}
}
