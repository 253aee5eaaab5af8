package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A latch is two resources. The gate, under the latch's own name, is held by the
// request that set the latch, with the count in its reason; its token names the
// round. The units, under a name made of that token, are taken one by one by those
// who count down, and are never given back. When all are taken the count is zero,
// whatever else happens: that is the truth. Whoever sees it opens the gate, that
// is, marks it as done, which tells those who wait in its queue.

// kindUnits is the kind of the units of a latch.
const kindUnits engine.Kind = "latch-units"

// latchSlack is how much longer than the latch its units and its mark live, so
// that a waiter that was cut off at the end still finds how it ended.
const latchSlack = time.Minute

// countPrefix begins the reason of the request that set a latch. Waiters have
// another one.
const countPrefix = "count "

// longestUnitsName is what units adds to the name of a latch.
const longestUnitsName = len("/latch/") + 20

// round is one life of a latch, from TrySet on.
type latchRound struct {
	held  engine.Held // the lease of the gate
	count int
	left  time.Duration // when the store was asked
}

// roundOf reads the gate's holder. It returns nil if that has set no latch: it is
// a waiter that got the gate when the round before had ended.
func roundOf(h engine.Holder) *latchRound {
	text, ok := strings.CutPrefix(h.Reason, countPrefix)
	number, _, _ := strings.Cut(text, ":")
	count, err := strconv.Atoi(number)
	if !ok || err != nil || count < 1 {
		return nil
	}
	return &latchRound{engine.Held{ID: h.ID, Token: h.Token}, count, h.TTL}
}

// units is the name of the resource of which the round's counts are taken.
func (r *latchRound) units(name string) string {
	return fmt.Sprintf("%s/latch/%d", name, r.held.Token)
}

// latchCall is one call of a latch's method: what it asks of the store.
type latchCall struct {
	l   *Latch
	ctx context.Context // ends also with the client, if it can end at all
	op  string
}

// persist asks until the store has answered. A store that is away is ridden out
// until ctx or the client ends.
func (k latchCall) retry(ask func(ctx context.Context) error) error {
	var slow backoff
	var trouble error
	for {
		if why := k.over(); why != nil {
			if trouble != nil {
				why = fmt.Errorf("%w (%w)", why, trouble)
			}
			return opError(k.op, k.l.name, why)
		}
		once, done := context.WithTimeout(k.ctx, askTimeout)
		err := ask(once)
		done()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrUnavailable):
			return opError(k.op, k.l.name, err)
		}
		trouble = err
		slow.pause(k.ctx)
	}
}

// over tells why nobody waits for the answer any more, or nil.
func (k latchCall) over() error {
	if k.l.c.life.Err() != nil {
		return ErrClosed
	}
	return context.Cause(k.ctx)
}

// acquire sends a request, and its copies until one is answered.
func (k latchCall) acquire(r engine.Request) (ans engine.Answer, err error) {
	err = k.retry(func(ctx context.Context) (err error) {
		ans, err = k.l.c.engine.Acquire(ctx, r)
		return err
	})
	return ans, err
}

// takeUnit counts, unless all has been counted. A Busy that is no proof of that, since a
// node of a quorum is away, is asked about again.
func (k latchCall) takeUnit(req engine.Request, r *latchRound) error {
	var slow backoff
	for {
		ans, err := k.acquire(req)
		if err != nil || ans.Status != engine.Busy {
			return err
		}
		if full, err := k.full(r); err != nil || full {
			return err
		}
		slow.pause(k.ctx)
	}
}

// probe asks whether there is room, and takes none: the ballot is below every
// token. The answer is Busy if not, else Outbid; or Marked. Unlike a snapshot it
// costs the same for any number of holders and waiters.
func (k latchCall) probe(name string, kind engine.Kind, capacity int) (engine.Answer, error) {
	r := k.l.request(name, kind, capacity, MinTTL)
	r.Ballot = 1
	return k.acquire(r)
}

// current returns the round that is on, or nil if there is none.
func (k latchCall) current() (*latchRound, error) {
	ans, err := k.probe(k.l.name, engine.KindLatch, 1)
	if err != nil || ans.Status != engine.Busy {
		return nil, err
	}
	return roundOf(ans.Holder), nil
}

// full tells whether all has been counted.
func (k latchCall) full(r *latchRound) (bool, error) {
	ans, err := k.probe(r.units(k.l.name), kindUnits, r.count)
	return err == nil && ans.Status == engine.Busy, err
}

// verdict tells how a round that is over ended: nil if its count was zero, or is.
func (k latchCall) outcome(r *latchRound) error {
	full, err := k.full(r)
	if err != nil || full {
		return err
	}
	// The round that followed may be over as well, or the units forgotten.
	ans, err := k.probe(k.l.name, engine.KindLatch, 1)
	if err != nil || ans.Status == engine.Marked {
		return err
	}
	return k.l.ended()
}

// open lets the waiters of a round go on and ends it. The withdrawal keeps late
// copies of the request that set the latch from setting it again. What is not
// confirmed while ctx lasts goes on in the background.
func (k latchCall) open(r *latchRound) {
	done := k.l.c.queueRelease(r.left, engine.Release{
		Resource: k.l.c.resource(k.l.name), Held: r.held, Withdraw: true, Mark: r.left + latchSlack,
	})
	select {
	case <-done:
	case <-k.ctx.Done():
	}
}

// unmark ends the mark of a round before.
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
		return opError(k.op, k.l.name, ErrMismatch) // what is done there is no latch
	}
	return k.retry(func(ctx context.Context) error {
		err := k.l.c.engine.Break(ctx, k.l.c.resource(k.l.name), engine.Break{ID: engine.MarkID})
		var gone *engine.NotHeldError
		if errors.As(err, &gone) {
			return nil
		}
		return err
	})
}
