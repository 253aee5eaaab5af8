package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

// lineKey identifies the callers of a process that can hand a lease off to each other:
// those that would send the same request.
type lineKey struct {
	name string
	// what is the TTL, the fallback and whether they are readers in one number, to keep the
	// key small: each held lease has a line. Callers with another fallback have a line of their own, so that
	// no caller waits behind one that waits longer for the store.
	what int64
}

type line = tenure.Line[lineKey, localTurn]

// localTurn is what one local waiter hands off to the next: a live grant, or an attempt
// with its place in the store's queue, or neither, and the next one makes a new attempt.
//
// The turn of a line has one owner at a time: a caller in acquireStore until it has a
// lease; the lease until it is released; then handOffOrRelease. Both functions hand it off
// in a deferred call, so that an error, a panic or runtime.Goexit does not lose it.
type localTurn struct {
	grant   *storeGrant
	attempt *attempt
	parked  bool      // the grant was kept after a release; see linger
	seat    bool      // a seat of a shared grant, instead of the turn
	silent  time.Time // when the first request was sent that the store has not answered, if the last caller fell back
}

// handsOff reports whether callers of one process queue among themselves. Only a lease
// of the whole capacity can be handed off; and a lease that is not renewed would be handed
// off with less than its TTL.
func (lk *acquirer) handsOff() bool {
	return lk.kind == engine.KindMutex && !lk.opts.noTenure && !lk.opts.noRenewal
}

// fewHandOffs is how many tokens are reserved while no local caller waits. Tokens follow
// the store's clock in microseconds: a caller that locks and unlocks in a loop and
// reserved many each time would run ahead of it.
const fewHandOffs = 16

// reserve returns how many tokens to reserve for local hand-offs.
func (lk *acquirer) reserve(l *line) uint64 {
	switch {
	case l == nil || lk.kind == engine.KindRW:
		return 0
	case l.Waiting() > 0:
		return tenure.MaxHandOffs
	default:
		return fewHandOffs
	}
}

func (lk *acquirer) key() lineKey {
	what := int64(lk.opts.ttl)<<8 | int64(lk.opts.fallback)
	if lk.kind == engine.KindRW {
		what |= 1 << 7
	}
	return lineKey{lk.name, what}
}

// takeTurn takes the turn of the line inside the process: it waits for it or, without wait,
// takes it only if it is free. The line is nil if there is none, or it is not free.
func (lk *acquirer) takeTurn(ctx context.Context, weight int, wait bool, spans *callSpans) (l *line, t localTurn, err error) {
	c := lk.c
	if !lk.handsOff() && !lk.shares(weight) {
		return nil, localTurn{}, nil
	}
	var w *tenure.Caller[localTurn]
	var parked *localTurn
	if wait {
		l, w, parked = c.lines.Join(lk.key())
	} else {
		l, parked = c.lines.TryJoin(lk.key())
	}
	if parked != nil {
		return l, *parked, nil
	}
	if w == nil {
		return l, localTurn{}, nil
	}
	q := queueWait{spans: spans}
	defer func() { q.end(ctx, lk, weight, err) }()
	t, err = lk.awaitTurn(ctx, weight, &q, l, w)
	return l, t, err
}

// awaitTurn waits for the turn of a line. If there is an error or a hook panics, it cancels
// the wait.
func (lk *acquirer) awaitTurn(ctx context.Context, weight int, q *queueWait, l *line, w *tenure.Caller[localTurn]) (t localTurn, err error) {
	c, took := lk.c, false
	defer func() {
		if took {
			return
		}
		if t, got := c.lines.Cancel(l, w); got {
			c.handOff(l, t)
		}
	}()
	q.begin(ctx, lk, weight, WaitProcess, max(l.Waiting()-1, 0))
	why := ErrClosed
	select {
	case t = <-w.Turn:
		took = true
		return t, nil
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-c.life.Done():
	}
	return localTurn{}, &waitError{lk.name, why, nil}
}

// handOff hands the turn of a line off to the next local waiter. If none waits, or there
// is no line, it withdraws or releases what the turn carries. A seat is given up.
func (c *Client) handOff(l *line, t localTurn) {
	if t.seat {
		t.grant.leaveSeat()
		return
	}
	if l != nil && c.lines.HandOff(l, t) {
		return
	}
	if t.attempt != nil {
		t.attempt.withdraw()
	}
	if t.grant != nil {
		if _, was := t.grant.end(nil); was != grantEnded {
			c.queueRelease(t.grant.entry.TTL, t.grant.releaseRequest())
			t.grant.endJeopardy(ErrReleased) // last, since a hook may panic
		}
	}
}
