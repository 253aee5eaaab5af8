package cas

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

const (
	// checkedAtOnce is how many waiters at the front are checked before a grant.
	checkedAtOnce = 256
	// sampled is how many waiters a poll checks; see queue.Record.Swept.
	sampled = 8
)

// check sets when the waiters of a state last polled. What this process knows of it may be
// old, so it reads the beats of those that seem to be dead and whose death would have
// an effect: those at the front if one of them may be granted, and a few others in turn.
// Any other waiter counts as alive.
func (e *Engine) check(w *writer, s *queue.Record, ops []*operation, now queue.Time) error {
	ctx := context.Background()
	line := s.Waiters
	for i := range line {
		line[i].Seen = e.polled(w, line[i], now)
	}
	life := translate.Micros(engine.WaiterLife)
	verified := make([]bool, len(line))
	if mayGrant(s, ops, now) {
		for from := 0; from < len(line); from += checkedAtOnce {
			to := min(from+checkedAtOnce, len(line))
			if err := e.verify(ctx, w, line[from:to], verified[from:to], now-life, now); err != nil {
				return err
			}
			if !allDead(line[from:to], now-life) {
				break
			}
		}
	}
	s.Swept = min(w.swept, len(line))
	to := min(s.Swept+sampled, len(line))
	if err := e.verify(ctx, w, line[s.Swept:to], verified[s.Swept:to], now-3*life, now); err != nil {
		return err
	}
	for i := range line {
		if !verified[i] {
			line[i].Seen = max(line[i].Seen, now-life+1)
		}
	}
	return nil
}

// mayGrant reports whether operations may grant a lease to a waiter.
func mayGrant(s *queue.Record, ops []*operation, now queue.Time) bool {
	if len(s.Waiters) == 0 {
		return false
	}
	for _, op := range ops {
		if op.urgent {
			return true
		}
	}
	used := 0
	for _, h := range s.Holders {
		if h.Deadline <= now {
			return true
		}
		used += h.Weight
	}
	return used < s.Capacity
}

// polled returns when a waiter last polled, as far as this process knows.
func (e *Engine) polled(w *writer, party queue.Waiter, now queue.Time) queue.Time {
	joined := party.Since
	if !e.timed {
		joined = now
		if at, ok := w.seen.Load().waiter(party.ID); ok {
			joined -= time.Since(at).Microseconds()
		}
	}
	return max(joined, e.beats.seen(w.clientOf(party), e.timed, now))
}

func (w *writer) clientOf(party queue.Waiter) Address {
	return Address{Prefix: w.key.Prefix, Client: engine.ClientOf(party.ID)}
}

// verify reads the beats of those waiters that seem not to have polled since a time.
func (e *Engine) verify(ctx context.Context, w *writer, line []queue.Waiter, verified []bool, since, now queue.Time) error {
	var reads []Read
	asked := make(map[Address]bool)
	for i, party := range line {
		if party.Seen > since {
			continue
		}
		verified[i] = true
		if c := w.clientOf(party); !asked[c] {
			asked[c] = true
			reads = append(reads, Read{Key: c.key()})
		}
	}
	if len(reads) == 0 {
		return nil
	}
	docs, err := e.readAll(ctx, reads)
	if err != nil {
		return err
	}
	for i, d := range docs {
		e.beats.hear(Address{Prefix: w.key.Prefix, Client: reads[i].Key.Name}, string(d.Value), d.Age)
	}
	for i := range line {
		line[i].Seen = e.polled(w, line[i], now)
	}
	return nil
}

func allDead(line []queue.Waiter, since queue.Time) bool {
	for _, w := range line {
		if w.Seen > since {
			return false
		}
	}
	return true
}
