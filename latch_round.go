package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A latch is two resources. The gate, under the latch's own name, is held by the
// request that set the latch, whose weight contains the count; its token names the
// round. The units, under a name made of that token, are taken one by one by calls
// of CountDown and are never released. When all are taken, the count is zero and
// stays zero. The first call that finds this opens the gate, that is, marks it as
// done, which wakes the waiters in its queue.

// gateUsage returns the kind and the capacity of the gate. A request that sets the latch
// weighs more than half of the capacity, a waiter all of it, so at most one of them holds it.
func gateUsage() usage { return usage{engine.KindLatch, 2*MaxCount + 1} }

// gateWeight returns the weight of a request that sets the count.
func gateWeight(count int) int { return MaxCount + count }

// latchSlack is how much longer than the latch its units and its mark live, so
// that a waiter that was disconnected at the end can still read how it ended.
const latchSlack = time.Minute

// longestUnitsName is the maximum length of what units adds to the name of a
// latch.
const longestUnitsName = len("/latch/") + 20

// latchRound is one life of a latch, from TrySet on.
type latchRound struct {
	held  engine.Held // the lease of the gate
	count int
	left  time.Duration // at the time of the request
}

// roundOf reads the gate's holder. It returns nil if the holder has set no
// latch: it is a waiter that acquired the gate when the previous round had
// ended.
func roundOf(h engine.Holder) *latchRound {
	count := h.Weight - gateWeight(0)
	if count < 1 || count > MaxCount {
		return nil
	}
	return &latchRound{engine.Held{ID: h.ID, Token: h.Token}, count, h.TTL}
}

// unitsUsage returns the kind and the capacity of the round's units.
func (r *latchRound) unitsUsage() usage { return usage{engine.KindLatchUnits, r.count} }

// units returns the name of the resource that holds the round's units.
func (r *latchRound) units(name string) string {
	return fmt.Sprintf("%s/latch/%d", name, r.held.Token)
}

// latchCall is one call of a latch's method.
type latchCall struct {
	l   *Latch
	ctx context.Context // also ends with the client, unless it never ends
	op  string
}

// retry repeats a request until the store has answered it, or ctx or the client
// ends.
func (k latchCall) retry(call func(ctx context.Context) error) error {
	err, over := k.l.c.repeat(k.ctx, call)
	switch {
	case over != nil && err != nil:
		err = fmt.Errorf("%w (%w)", over, err)
	case over != nil:
		err = over
	}
	if err != nil {
		return opError(k.op, k.l.name, err)
	}
	return nil
}

// over returns what ended the call, or nil.
func (k latchCall) over() error {
	if k.l.c.life.Err() != nil {
		return ErrClosed
	}
	return context.Cause(k.ctx)
}

// acquire sends a request, and copies of it until one is answered. Others may arrive later.
func (k latchCall) acquire(r engine.Request) (ans engine.Answer, copied bool, err error) {
	sent := 0
	err = k.retry(func(ctx context.Context) (err error) {
		sent++
		ans, err = k.l.c.engine.Acquire(ctx, r)
		if errors.Is(err, ErrMismatch) {
			err = k.l.c.explainMismatch(ctx, r.Resource, usage{r.Kind, r.Capacity}, err)
		}
		return err
	})
	return ans, sent > 1, err
}

// takeUnit takes a unit, unless all are taken. On a quorum with a node down, Busy does
// not prove that all are taken, so takeUnit then checks and tries again.
func (k latchCall) takeUnit(req engine.Request, r *latchRound) error {
	var slow backoff
	for {
		ans, _, err := k.acquire(req)
		if err != nil || ans.Status != engine.Busy {
			return err
		}
		if full, err := k.full(r); err != nil || full {
			return err
		}
		slow.pause(k.ctx)
	}
}

// probe checks whether a weight is free without taking it: its ballot is below every
// token. The answer is Busy if the weight is not free, Outbid if it is, or Marked.
// Unlike a snapshot, it costs the same for any number of holders and waiters.
func (k latchCall) probe(name string, of usage, weight int) (engine.Answer, error) {
	r := k.l.request(name, of, weight, MinTTL)
	r.Ballot = 1
	ans, _, err := k.acquire(r)
	return ans, err
}

// probeGate returns the holder of the gate, in a Busy answer, if there is one.
func (k latchCall) probeGate() (engine.Answer, error) {
	return k.probe(k.l.name, gateUsage(), gateUsage().capacity)
}

// current returns the present round, or nil if there is none.
func (k latchCall) current() (*latchRound, error) {
	ans, err := k.probeGate()
	if err != nil || ans.Status != engine.Busy {
		return nil, err
	}
	return roundOf(ans.Holder), nil
}

// full reports whether all units are taken.
func (k latchCall) full(r *latchRound) (bool, error) {
	ans, err := k.probe(r.units(k.l.name), r.unitsUsage(), 1)
	return err == nil && ans.Status == engine.Busy, err
}

// outcome returns how a round ended: nil if its count was zero.
func (k latchCall) outcome(r *latchRound) error {
	full, err := k.full(r)
	if err != nil || full {
		return err
	}
	// The next round may be over as well, or the store may have lost the units.
	ans, err := k.probeGate()
	if err != nil || ans.Status == engine.Marked {
		return err
	}
	return k.l.ended()
}

// open releases the waiters of a round and ends it. The withdrawal keeps late
// copies of the request that set the latch from setting it again. If ctx ends
// first, the release continues in the background.
func (k latchCall) open(r *latchRound) {
	done := k.l.c.queueRelease(r.left, engine.Release{
		Resource: k.l.c.resource(k.l.name), Held: r.held, Withdraw: true, Mark: r.left + latchSlack,
	})
	select {
	case <-done:
	case <-k.ctx.Done():
	}
}

// unmark removes the mark of an earlier round.
func (k latchCall) unmark() error {
	var b engine.Brief
	err := k.retry(func(ctx context.Context) (err error) {
		b, err = k.l.c.engine.Peek(ctx, k.l.c.resource(k.l.name))
		return err
	})
	if err != nil {
		return err
	}
	if b.Marked > 0 && b.Kind != engine.KindLatch {
		return opError(k.op, k.l.name, mismatchWith(b, gateUsage())) // the mark is of another kind
	}
	return k.retry(func(ctx context.Context) error {
		err := k.l.c.engine.Break(ctx, k.l.c.resource(k.l.name), engine.Break{ID: engine.MarkID})
		if _, ok := errors.AsType[*engine.NotHeldError](err); ok {
			return nil
		}
		return err
	})
}
