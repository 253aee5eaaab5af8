// Package translate converts between the contract of engines and internal/queue,
// for the engines that run the queue themselves.
package translate

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// A Directory returns the client of a holder ID, of which at least the ID is set.
type Directory func(holderID string) engine.Client

// Params returns the timing rules of the protocol.
func Params(retention time.Duration) queue.Params {
	return queue.Params{
		WaiterLife:  Micros(engine.WaiterLife),
		ClaimWindow: Micros(engine.ClaimWindow),
		Retention:   Micros(retention),
		BallotAhead: Micros(engine.MaxBallotAhead),
	}
}

// Micros returns a duration in the unit of the queue.
func Micros(d time.Duration) queue.Time { return d.Microseconds() }

// Duration returns a span of the queue.
func Duration(t queue.Time) time.Duration { return time.Duration(t) * time.Microsecond }

// Request returns the queue's request.
func Request(r engine.Request) queue.Request {
	return queue.Request{
		ID: r.ID, Kind: string(r.Kind), Capacity: r.Capacity, Weight: r.Weight, TTL: Micros(r.TTL),
		Queue: r.Queue, Reserve: r.Reserve, Mark: Micros(r.Mark), Ballot: r.Ballot, Turn: r.Turn.ID, Place: r.Turn.Token,
		Reason: r.Reason, Yields: r.Yields.ID,
	}
}

// Answer returns the result of Acquire.
func Answer(a queue.Answer, now queue.Time, clients Directory) (engine.Answer, error) {
	switch a.Status {
	case queue.Granted:
		return engine.Answer{Status: engine.Granted, Token: a.Token, TTL: Duration(a.TTL), Last: a.Last}, nil
	case queue.Queued:
		return engine.Answer{Status: engine.Queued, Position: a.Position, Next: Duration(a.Next), Last: a.Last}, nil
	case queue.Busy:
		busy := engine.Answer{Status: engine.Busy, Next: Duration(a.Next), Waiters: a.Waiters, Position: a.Position, Last: a.Last}
		if a.Holder.ID != "" {
			busy.Holder = holder(a.Holder, now, clients)
		}
		return busy, nil
	case queue.Marked:
		return engine.Answer{Status: engine.Marked, Next: Duration(a.Next)}, nil
	case queue.Outbid:
		return engine.Answer{Status: engine.Outbid, Last: a.Last}, nil
	}
	return engine.Answer{}, Failure(a)
}

// Failure returns the error of an operation, or nil if it succeeded.
func Failure(a queue.Answer) error {
	switch a.Status {
	case queue.Done:
		return nil
	case queue.NotHeld:
		return &engine.NotHeldError{Cause: engine.Cause(a.Cause), Reason: a.Reason}
	case queue.Ended:
		return &engine.EndedError{Cause: engine.Cause(a.Cause), Reason: a.Reason}
	case queue.Mismatch:
		return engine.ErrMismatch
	case queue.TooHeavy:
		return engine.ErrTooHeavy
	case queue.TooFar:
		return engine.ErrBallot
	}
	panic(fmt.Sprintf("the queue answered with status %d", a.Status))
}

// Wakeups returns the wake-ups for the waiters that an operation changed.
func Wakeups(a queue.Answer) []engine.Wakeup {
	var all []engine.Wakeup
	for _, g := range a.Grants {
		all = append(all, engine.Wakeup{Kind: engine.WakeGrant, ID: g.ID, Token: g.Token, TTL: Duration(g.TTL)})
	}
	for _, id := range a.Called {
		all = append(all, engine.Wakeup{Kind: engine.Resync, ID: id})
	}
	for _, id := range a.Dropped {
		all = append(all, engine.Wakeup{Kind: engine.WakeMarked, ID: id, TTL: Duration(a.Left)})
	}
	for _, id := range a.Wanted {
		all = append(all, engine.Wakeup{Kind: engine.WakeWanted, ID: id})
	}
	return all
}

// Snapshot returns what an operator sees of a queue.
func Snapshot(q *queue.Queue, res engine.Resource, now queue.Time, clients Directory) engine.Snapshot {
	is := q.Snapshot(now)
	s := engine.Snapshot{Resource: res, Kind: engine.Kind(is.Kind), Capacity: is.Capacity, Token: is.Last}
	if is.Marked > 0 {
		s.Marked = Duration(is.Marked - now)
	}
	if is.MarkedBy.ID != "" {
		is.MarkedBy.Deadline = now
		s.MarkedBy = holder(is.MarkedBy, now, clients)
	}
	for _, h := range is.Holders {
		s.Holders = append(s.Holders, holder(h, now, clients))
	}
	for _, w := range is.Waiters {
		s.Waiters = append(s.Waiters, waiter(w, clients))
	}
	for _, w := range is.Dead {
		dead := waiter(w, clients)
		dead.Silent = Duration(now - w.Seen)
		s.Dead = append(s.Dead, dead)
	}
	return s
}

// Brief returns the state of a queue in brief.
func Brief(q *queue.Queue, res engine.Resource, now queue.Time) engine.Brief {
	is := q.Peek(engine.MaxPeeked, now)
	b := engine.Brief{
		Resource: res, Kind: engine.Kind(is.Kind), Capacity: is.Capacity, Token: is.Last,
		More: is.More, Waiting: is.Waiting,
	}
	if is.Marked > 0 {
		b.Marked = Duration(is.Marked - now)
	}
	for _, h := range is.Holders {
		b.Holders = append(b.Holders, holder(h, now, nameless))
	}
	return b
}

// nameless is the Directory of a Brief, which contains no more than IDs.
func nameless(holderID string) engine.Client { return engine.Client{ID: engine.ClientOf(holderID)} }

func waiter(w queue.Waiter, clients Directory) engine.Waiter {
	return engine.Waiter{ID: w.ID, Client: clients(w.ID), Reason: w.Reason, Weight: w.Weight, Since: time.UnixMicro(w.Since)}
}

func holder(h queue.Holder, now queue.Time, clients Directory) engine.Holder {
	return engine.Holder{
		ID: h.ID, Client: clients(h.ID), Reason: h.Reason, Weight: h.Weight, Token: h.Token,
		Since: time.UnixMicro(h.Since), TTL: Duration(max(0, h.Deadline-now)), Breaking: h.Breaking,
	}
}
