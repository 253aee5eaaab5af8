package queue

// Resize lowers the weight of a lease, which keeps its token and its deadline, and grants what
// that frees. The same weight again changes nothing, so Resize is idempotent. A weight below 1
// or above the present one is TooHeavy: a lease that grew would pass the waiters.
func (q *Queue) Resize(id string, token uint64, weight int, now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.expire(id, now, &a)
	h := q.live(id)
	fits := h != nil && weight >= 1 && weight <= h.Weight
	if fits {
		q.used -= h.Weight - weight
		h.Weight = weight
	}
	q.advance(now, "", &a)
	switch {
	case fits:
		a.Status, a.TTL = Done, h.Deadline-now
	case h != nil:
		a.Status = TooHeavy
	default:
		return a.notHeld(q.why(id, token, now))
	}
	return a
}
