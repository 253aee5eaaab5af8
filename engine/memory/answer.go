package memory

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

func micros(d time.Duration) queue.Time { return d.Microseconds() }

func duration(t queue.Time) time.Duration { return time.Duration(t) * time.Microsecond }

func request(r engine.Request) queue.Request {
	return queue.Request{
		ID: r.ID, Kind: string(r.Kind), Capacity: r.Capacity, Weight: r.Weight, TTL: micros(r.TTL),
		Queue: r.Queue, Reserve: r.Reserve, Mark: micros(r.Mark), Ballot: r.Ballot, Turn: r.Turn.ID, Place: r.Turn.Token, Reason: r.Reason, Yields: r.Yields.ID,
	}
}

// describer adds to a queue's answer what only the engine has.
type describer struct {
	now    queue.Time
	holder engine.Client
}

// answer converts a queue's answer to an engine's.
func (d describer) answer(a queue.Answer) (engine.Answer, error) {
	switch a.Status {
	case queue.Granted:
		return engine.Answer{Status: engine.Granted, Token: a.Token, TTL: duration(a.TTL), Last: a.Last}, nil
	case queue.Queued:
		return engine.Answer{Status: engine.Queued, Position: a.Position, Next: duration(a.Next), Last: a.Last}, nil
	case queue.Busy:
		busy := engine.Answer{Status: engine.Busy, Next: duration(a.Next), Waiters: a.Waiters, Position: a.Position, Last: a.Last}
		if a.Holder.ID != "" {
			busy.Holder = holder(a.Holder, d.holder, d.now)
		}
		return busy, nil
	case queue.Marked:
		return engine.Answer{Status: engine.Marked, Next: duration(a.Next)}, nil
	case queue.Outbid:
		return engine.Answer{Status: engine.Outbid, Last: a.Last}, nil
	}
	return engine.Answer{}, failure(a)
}

// failure returns the error of an operation, or nil if it succeeded.
func failure(a queue.Answer) error {
	switch a.Status {
	case queue.Done:
		return nil
	case queue.NotHeld:
		return &engine.NotHeldError{Cause: engine.Cause(a.Cause)}
	case queue.Ended:
		return &engine.EndedError{Cause: engine.Cause(a.Cause)}
	case queue.Mismatch:
		return engine.ErrMismatch
	case queue.TooHeavy:
		return engine.ErrTooHeavy
	case queue.TooFar:
		return engine.ErrBallot
	}
	panic(fmt.Sprintf("memory: the queue answered with status %d", a.Status))
}

func holder(h queue.Holder, c engine.Client, now queue.Time) engine.Holder {
	return engine.Holder{
		ID: h.ID, Client: c, Reason: h.Reason, Weight: h.Weight, Token: h.Token,
		Since: time.UnixMicro(h.Since), TTL: duration(max(0, h.Deadline-now)), Breaking: h.Breaking,
	}
}
