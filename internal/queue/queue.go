// Package queue is the specification of Holdfast: the weighted first-come-
// first-served queue of leases for one resource, as a pure function of state,
// operation and time.
//
// It is used three times: it is the memory engine, it is the oracle that the
// Lua scripts of the Redis engine are compared with, and it is the lab's model.
// It has no clock, no context and no goroutine; time is an argument, in
// microseconds by the store's clock, and the same calls give the same answers.
//
// # The rules
//
//   - A lease holds Weight of the Capacity until its deadline. At the deadline it ends,
//     even if no operation follows.
//   - Waiters are granted from the front only. If the front does not fit, no waiter
//     behind it is tried, so light requests do not starve a heavy one.
//   - Every operation first reaps expired leases and grants what that frees.
//   - An operation clears up at most a portion: expired leases, dead waiters, grants,
//     and waiters that a mark dismisses. If there is more, its answer says so, and
//     Tidy or any other operation continues. An expired lease that is not reaped yet
//     counts against the capacity, but its ID cannot use it.
//   - A waiter whose client has stopped listening is passed by one that listens; see gone.go.
//   - A waiter that has not polled for WaiterLife is dropped when it reaches the
//     front. From time to time a poll, or Tidy, checks a few other waiters in turn and
//     drops those that have not polled for three times that long. A grant to a waiter
//     that is not the caller lasts for ClaimWindow at most, until it is renewed.
//   - A token is max(last+1, now): it grows with every grant and, as long as
//     the clock is ahead of all tokens given, across a loss of the state. A
//     ballot is the token instead if it is above last, and not so old that a state
//     that was forgotten may have given it.
//   - A ballot that waits is never granted. With Queue and a Turn it leaves its turn
//     in the line, behind all other waiters and in the order of Place. When the turn
//     is at the front and fits, it is called, and its next ballot passes no waiter.
//     See enqueue.go.
//   - Holders of leases whose IDs end in recallSuffix are sent a wake-up when a request for the whole capacity waits; see recall.go.
//   - A lease that an operator breaks, unless by force, is breaking: it counts against
//     the capacity until its holder releases it or its deadline passes, but it cannot
//     be extended, and its ID has ended.
//   - A resource may be marked as done for a time, by a grant or by the release of a
//     lease. While the mark lasts no new request is granted or queued; when it begins
//     the waiters are dismissed. A mark never becomes shorter, and present leases
//     continue. Until the mark ends the resource keeps its kind and capacity.
//   - Every end of a lease except a plain release leaves a tombstone for Retention. So
//     an ID without one and with a token between birth and last was released, and a
//     repeated release can be distinguished from a lost lease without a record of
//     every release.
package queue

import (
	"container/heap"
	"container/list"
)

// Time is an instant or a span in microseconds. Instants count from 1970 by the
// store's clock.
type Time = int64

// Spans in microseconds.
const (
	Millisecond Time = 1000
	Second      Time = 1000 * Millisecond
)

// DefaultPortion is the portion of the scripts, which takes Redis about a millisecond (decision 0063).
const DefaultPortion = 64

// Params are the timing rules of a queue.
type Params struct {
	WaiterLife  Time // a waiter is dropped this long after its last request
	ClaimWindow Time // the longest first TTL of a lease granted to a waiter
	Retention   Time // how long tombstones and the last token are kept; at least WaiterLife
	BallotAhead Time // how far a ballot may be ahead of now
	// Deaf reports that no wake-up can reach the client of an ID at present; nil: it is unknown.
	Deaf    func(id string) bool
	Portion int // how much one operation clears up: that many expired leases and dead waiters, or a quarter as many grants
}

// Cause is why a lease is not held.
type Cause uint8

// The causes, in the order of package engine.
const (
	Expired Cause = iota + 1
	Taken
	Deleted
	Broken
	Released
)

// Status is the outcome of an operation.
type Status uint8

// The statuses of Acquire, Renew, Release, Resize and Break.
const (
	Granted  Status = iota + 1
	Queued          // waits; see Position and Next
	Busy            // cannot be granted now and may not wait
	Outbid          // the ballot is not above Last
	Ended           // the ID's lease has ended or was withdrawn
	Mismatch        // in use, or marked, with another kind or capacity
	TooHeavy        // weight above capacity; Resize: or above the present one
	TooFar          // the ballot is too far ahead of now
	Done            // renewed, released or broken
	NotHeld         // see Cause
	Marked          // marked as done; see Next
)

// Request requests a lease, or polls for it: the same ID is the same attempt.
type Request struct {
	ID       string
	Kind     string
	Capacity int
	Weight   int
	TTL      Time
	Queue    bool   // wait if it cannot be granted now
	Reserve  uint64 // tokens set aside above the granted one
	Mark     Time   // for how long the grant marks the resource as done; 0: it does not
	Ballot   uint64 // proposed token, 0 for none
	Turn     string // of a ballot with Queue: the ID by which it waits, which never holds
	Place    uint64 // of a ballot: the place of its turn; 0: behind all others
	Reason   string
	Yields   string // ID of a lease to release first, or ""
}

// Answer is the result of an operation.
type Answer struct {
	Status   Status
	Token    uint64
	TTL      Time   // Granted: the rest of the lease
	Position int    // Queued, or Busy and with a turn in the line: how many waiters are ahead
	Next     Time   // unless Granted: until the first deadline; 0 if there is no holder. Marked: until the mark ends. With a turn in the line: see until
	Holder   Holder // Busy: the holder whose lease ends first; zero if none
	Waiters  int    // Busy: length of the queue
	Last     uint64 // Outbid: a later ballot above it is accepted; Queued, Busy: the last token; Granted: the highest place in the line
	Cause    Cause  // NotHeld, Ended (Released: it was withdrawn)
	Reason   string // of the break, if the cause is Broken
	Grants   []Grant
	Called   []string // turns that are at the front and fit, which need a wake-up to propose
	Dropped  []string // waiters that a mark dismissed, which need wake-ups after the grants
	Left     Time     // with Dropped: the rest of the mark
	Wanted   []string // the holders that need a wake-up, since another party wants the resource; see recall
	More     bool     // the portion was used up; see Tidy

	portion int // the rest of the portion
}

// Break is what an operator ends: a lease, a wait, or with MarkID the mark.
type Break struct {
	ID     string
	Force  bool   // a lease ends at once
	Reason string // for the party that is broken
}

// Grant is a lease granted to a waiter that is not the caller. The waiter needs a wake-up.
type Grant struct {
	ID    string
	Token uint64
	TTL   Time
}

// Holder is a live lease.
type Holder struct {
	ID       string
	Weight   int
	Token    uint64
	Since    Time
	Deadline Time
	Reason   string
	Breaking bool // broken: it cannot be renewed

	index int           // in the heap of deadlines
	place *list.Element // in the order of tokens
}

// Waiter is an entry of the queue.
type Waiter struct {
	ID      string
	Place   uint64 // of a turn, else 0
	Weight  int
	TTL     Time
	Reserve uint64
	Mark    Time
	Seen    Time // its last request; see sweep
	Since   Time
	Reason  string
	Listens bool // a wake-up could reach it at its last request; not encoded
}

type tombstone struct {
	cause  Cause // Released here means withdrawn
	until  Time
	reason string // of a break
}

// Queue is the state of one resource. The zero value is not usable; see New.
type Queue struct {
	params   Params
	kind     string
	capacity int
	birth    uint64 // first token given; this state knows no older ones
	last     uint64 // highest token given or reserved
	marked   Time   // until when the resource is marked as done
	newest   Holder // of a capacity of 1: the latest lease, which set the mark if there is one

	used    int
	holders map[string]*Holder
	byEnd   deadlines
	byToken *list.List // of *Holder; a new token is above all others

	called  string                   // the turn that was called since the last grant
	waiters map[string]*list.Element // of *Waiter
	line    *list.List
	swept   *list.Element // the last one that a sweep has checked; nil: begin at the front
	sweptAt Time

	ended   map[string]tombstone
	sweepAt int // size of ended at which the old ones are removed
	// forget is the time at which the whole state may be dropped, as the key's
	// TTL does in Redis.
	forget Time
}

// New returns the empty state of a resource at its first use.
func New(p Params, now Time) *Queue {
	if p.Portion == 0 {
		p.Portion = DefaultPortion
	}
	return &Queue{
		params:  p,
		forget:  now + p.Retention,
		holders: make(map[string]*Holder),
		byToken: list.New(),
		waiters: make(map[string]*list.Element),
		line:    list.New(),
		ended:   make(map[string]tombstone),
	}
}

// Forgettable reports whether the state can be dropped without loss: all leases and waits have
// ended, even if they are not reaped, all tombstones are old, and the clock is ahead of every
// token.
func (q *Queue) Forgettable(now Time) bool { return now >= q.forget }

// Acquire requests a lease.
func (q *Queue) Acquire(r Request, now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.expire(r.ID, now, &a)
	if r.Yields != "" {
		q.drop(r.Yields)
	}
	if e, ok := q.tombstone(r.ID, now); ok {
		q.advance(now, "", &a)
		a.Status, a.Cause, a.Reason = Ended, e.cause, e.reason
		return a
	}
	if h := q.holders[r.ID]; h != nil {
		h.Deadline = max(h.Deadline, now+r.TTL)
		heap.Fix(&q.byEnd, h.index)
		q.keep(h.Deadline)
		q.advance(now, "", &a)
		a.Status, a.Token, a.TTL = Granted, h.Token, h.Deadline-now
		return a
	}
	line := r.line()
	if _, ok := q.tombstone(line, now); ok {
		r.Queue = false // its turn was withdrawn
	}
	waited := q.waiters[line]
	if e := waited; e != nil {
		if q.marked > now { // the answer has the mark
			q.drop(line)
		} else {
			w := e.Value.(*Waiter)
			w.Seen, w.Listens = now, q.listens(line)
			q.keep(now + w.TTL)
		}
	}
	q.advance(now, line, &a)
	if waited != nil && q.sweepDue(now) {
		q.sweep(now, &a)
	}
	if h := q.holders[r.ID]; h != nil { // it was at the front
		a.Status, a.Token, a.TTL = Granted, h.Token, h.Deadline-now
		return a
	}
	if q.marked > now {
		if r.Kind != q.kind || r.Capacity != q.capacity { // the mark is of other work
			a.Status = Mismatch
			return a
		}
		a.Status, a.Next = Marked, q.marked-now
		return a
	}
	a.Next = q.next(now)
	if q.waiters[r.ID] != nil {
		a.Status, a.Position, a.Last = Queued, ahead(q.waiters[r.ID]), q.last
		return a
	}
	a.Status = q.admit(r, now, &a)
	switch a.Status {
	case Granted:
		h := q.holders[r.ID]
		a.Token, a.TTL, a.Next = h.Token, h.Deadline-now, 0
		a.Last = q.latest()
		q.advance(now, "", &a) // for the turns that it passed, and those behind it
	case Queued:
		a.Position, a.Last = q.line.Len()-1, q.last
	case Busy:
		a.Waiters, a.Last = q.line.Len(), q.last
		if e := q.waiters[line]; e != nil && line != r.ID {
			a.Position, a.Next = ahead(e), q.until(line, now)
		}
		if len(q.byEnd) > 0 {
			a.Holder = *q.byEnd[0]
		}
	case Outbid:
		a.Last = max(q.last, uint64(now))
	}
	q.recall(r, &a)
	return a
}

// live returns the lease of an ID that may be used and renewed, or nil.
func (q *Queue) live(id string) *Holder {
	if h := q.holders[id]; h != nil && !h.Breaking {
		return h
	}
	return nil
}

// admit grants, queues or refuses the request of an ID that neither holds nor waits.
func (q *Queue) admit(r Request, now Time, a *Answer) Status {
	q.marked = 0 // it has ended; if the clock were set back, a marked resource would have waiters
	if r.Weight > r.Capacity {
		return TooHeavy
	}
	if q.used == 0 && q.line.Len() == 0 {
		q.kind, q.capacity = r.Kind, r.Capacity
	} else if q.kind != r.Kind || q.capacity != r.Capacity {
		return Mismatch
	}
	// No request passes the front of the queue: a new one is granted only if no waiter is
	// ahead of it.
	if q.first(r) && q.used+r.Weight <= q.capacity {
		if r.Ballot != 0 {
			if r.Ballot <= q.floor(now) {
				return Outbid
			}
			if r.Ballot > uint64(now+q.params.BallotAhead) {
				return TooFar
			}
		}
		q.drop(r.line())
		q.hold(r.ID, r.Weight, r.TTL, r.Reserve, r.Ballot, r.Reason, now)
		q.mark(r.Mark, now, a)
		return Granted
	}
	line := r.line()
	if r.mayWait() && q.waiters[line] == nil {
		w := &Waiter{
			ID: line, Weight: r.Weight, TTL: r.TTL, Reserve: r.Reserve, Mark: r.Mark,
			Seen: now, Since: now, Reason: r.Reason, Listens: q.listens(line),
		}
		if r.Ballot != 0 {
			w.Place = r.Place
		}
		q.enqueue(w)
		q.keep(now + r.TTL)
	}
	if !r.Queue || r.Ballot != 0 {
		return Busy
	}
	return Queued
}

// floor is what a ballot must be above: the last token and, since an earlier state may have been
// forgotten, every time more than the retention ago. A state is kept for the retention after the
// time that its last token is.
func (q *Queue) floor(now Time) uint64 {
	return max(q.last, uint64(max(0, now-q.params.Retention)))
}

// Renew extends a lease to ttl from now, never shortening it.
func (q *Queue) Renew(id string, token uint64, ttl, now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.expire(id, now, &a)
	h := q.live(id)
	if h != nil {
		h.Deadline = max(h.Deadline, now+ttl)
		heap.Fix(&q.byEnd, h.index)
		q.keep(h.Deadline)
	}
	q.advance(now, "", &a)
	if h != nil {
		a.Status, a.TTL = Done, h.Deadline-now
		return a
	}
	return a.notHeld(q.why(id, token, now))
}

// Release releases a lease or leaves the queue. With withdraw, the ID is refused from now on,
// and the answer is always Done. With mark, the release of a lease marks the resource as done
// for that time. A release without a lease marks nothing, so a second copy does not mark again.
// An expired lease that is not reaped can be released: no other party has had it meanwhile. The
// release of a lease that is breaking frees it, marks nothing, and its cause is Broken.
func (q *Queue) Release(id string, token uint64, withdraw bool, mark, now Time) Answer {
	a := q.begin()
	h := q.holders[id]
	breaking := h != nil && h.Breaking
	had := q.drop(id)
	if h != nil && !breaking {
		q.mark(mark, now, &a)
	}
	q.reap(now, &a)
	q.advance(now, "", &a)
	if (!had || breaking) && !withdraw {
		if why := q.why(id, token, now); why.cause != Released {
			return a.notHeld(why)
		}
	}
	if withdraw {
		q.bury(id, Released, now, now)
	}
	a.Status = Done
	return a
}

// Waits reports whether an ID is in the line.
func (q *Queue) Waits(id string) bool { return q.waiters[id] != nil }

// Bars reports whether a party excludes whoever joins the line after it: it has waited since an instant and is no
// turn, or its lease has the whole capacity. As long as it does so, none of them has had a lease.
func (q *Queue) Bars(id string, since Time) bool {
	if e := q.waiters[id]; e != nil {
		w := e.Value.(*Waiter)
		return w.Place == 0 && w.Since == since
	}
	h := q.holders[id]
	return h != nil && h.Weight == q.capacity
}

// Break ends a lease, a wait or the mark for an operator. A lease becomes breaking: it ends when
// its holder releases it, or at its deadline. A second Break is harmless. With Force the lease
// ends at once. Of several breaks the latest reason counts. A wait always ends at once, and so does the mark, whose ID is MarkID. The mark
// outlives a lease that is broken.
func (q *Queue) Break(b Break, now Time) Answer {
	a := q.begin()
	q.reap(now, &a)
	q.expire(b.ID, now, &a)
	had := b.ID == MarkID && q.unmark(now) || q.breaks(b, now)
	q.advance(now, "", &a)
	if !had {
		return a.notHeld(q.why(b.ID, 0, now))
	}
	a.Status = Done
	return a
}

func (q *Queue) breaks(b Break, now Time) bool {
	if e, ok := q.tombstone(b.ID, now); ok && b.Reason == "" {
		b.Reason = e.reason
	}
	switch h := q.holders[b.ID]; {
	case h != nil && h.Breaking && !b.Force: // again
	case h != nil && !b.Force:
		h.Breaking = true
		heap.Fix(&q.byEnd, h.index)
		q.bury(b.ID, Broken, h.Deadline, now) // from now on, and until Retention after its deadline
	case q.drop(b.ID):
		q.bury(b.ID, Broken, now, now)
	default:
		return false
	}
	e := q.ended[b.ID]
	e.reason = b.Reason
	q.ended[b.ID] = e
	return true
}

// hold makes a lease. Every token comes from here.
func (q *Queue) hold(id string, weight int, ttl Time, reserve, ballot uint64, reason string, now Time) *Holder {
	token := max(q.last+1, uint64(now))
	if ballot != 0 {
		token = ballot
	}
	if q.birth == 0 {
		q.birth = token
	}
	q.last = token + reserve
	q.keep(Time(q.last)) // a ballot or reserved tokens may be far ahead of now
	h := &Holder{ID: id, Weight: weight, Token: token, Since: now, Deadline: now + ttl, Reason: reason}
	if q.capacity == 1 {
		q.newest = Holder{ID: id, Weight: weight, Token: token, Since: now, Reason: reason}
	}
	q.holders[id] = h
	heap.Push(&q.byEnd, h)
	h.place = q.byToken.PushBack(h)
	q.used += weight
	q.called = ""
	q.keep(h.Deadline)
	return h
}

// drop removes a holder or waiter by its ID, and reports whether it existed.
func (q *Queue) drop(id string) bool {
	if h := q.holders[id]; h != nil {
		delete(q.holders, id)
		heap.Remove(&q.byEnd, h.index)
		q.byToken.Remove(h.place)
		q.used -= h.Weight
		return true
	}
	if e := q.waiters[id]; e != nil {
		delete(q.waiters, id)
		if q.swept == e {
			q.swept = e.Prev()
		}
		q.line.Remove(e)
		return true
	}
	return false
}

// bury leaves a tombstone for the retention after an instant.
func (q *Queue) bury(id string, c Cause, at, now Time) {
	if len(q.ended) >= q.sweepAt {
		for other, e := range q.ended {
			if e.until <= now {
				delete(q.ended, other)
			}
		}
		q.sweepAt = 2*len(q.ended) + 16
	}
	q.ended[id] = tombstone{cause: c, until: at + q.params.Retention}
	q.keep(at)
}

func (q *Queue) tombstone(id string, now Time) (tombstone, bool) {
	e, ok := q.ended[id]
	return e, ok && e.until > now
}

// why returns why a lease is not held: its tombstone, or one that it would have.
func (q *Queue) why(id string, token uint64, now Time) tombstone {
	if e, ok := q.tombstone(id, now); ok {
		if e.cause == Expired && q.used > 0 && q.used >= q.capacity {
			e.cause = Taken
		}
		return e
	}
	if token == 0 || token < q.birth || token > q.last {
		return tombstone{cause: Deleted}
	}
	return tombstone{cause: Released}
}

// notHeld makes a the answer that a lease is not held.
func (a Answer) notHeld(why tombstone) Answer {
	a.Status, a.Cause, a.Reason = NotHeld, why.cause, why.reason
	return a
}

// keep makes sure that the state outlives an instant by the retention.
func (q *Queue) keep(until Time) { q.forget = max(q.forget, until+q.params.Retention) }

func (q *Queue) next(now Time) Time {
	if len(q.byEnd) == 0 {
		return 0
	}
	return max(0, q.byEnd[0].Deadline-now) // the first may have expired, but not been reaped
}

// name is the order of leases with equal deadlines.
func (h *Holder) name() string {
	if h.Breaking {
		return "!" + h.ID
	}
	return h.ID
}

// deadlines is a heap of holders, the first to end on top. Holders with equal deadlines are in
// the order of their names.
type deadlines []*Holder

func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	if d[i].Deadline != d[j].Deadline {
		return d[i].Deadline < d[j].Deadline
	}
	return d[i].name() < d[j].name()
}
func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i]; d[i].index, d[j].index = i, j }
func (d *deadlines) Push(x any)   { h := x.(*Holder); h.index = len(*d); *d = append(*d, h) }
func (d *deadlines) Pop() any {
	old := *d
	h := old[len(old)-1]
	*d = old[:len(old)-1]
	return h
}
