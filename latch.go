package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxCount is the highest count of a Latch.
const MaxCount = 1 << 16

// ErrLatchEnded: the latch ended before its count was zero: its TTL ran out, an
// operator broke it, or the store lost its data.
var ErrLatchEnded = errors.New("the latch ended before its count was zero")

// Latch is a count that goes down to zero, once, and lets all go on who wait for
// that: for a step that begins when every part of the one before is done.
//
// A latch lives for its TTL from TrySet on, by default 24 hours, and nobody renews
// it: when the TTL has run out it is as if it had never been set, and those who
// wait get ErrLatchEnded. Its count survives the processes that set it and that
// counted. A CountDown never counts twice, nor is it lost with a reply; but a process
// that is killed in CountDown has counted or not, so work that another then does
// again may be counted twice. A latch whose data the store loses has ended.
type Latch struct {
	c    *Client
	name string
	opts lockOptions

	mu        sync.Mutex
	unsettled []unit // whether they are counted is unknown
}

// Latch returns a handle on a count-down latch. It costs nothing until it is used.
// WithTTL is the life of the latch (default MaxTTL), for the one who calls TrySet.
// A latch has no fallback, and its name has at most 485 bytes.
func (c *Client) Latch(name string, opts ...LockOption) *Latch {
	o := lockOptionsOf(name, append([]LockOption{WithTTL(MaxTTL)}, opts...))
	if len(name) > MaxNameLen-longestUnitsName {
		o.fail(optionError("the latch's name has %d bytes: use at most %d", len(name), MaxNameLen-longestUnitsName))
	}
	if o.fallback != FailClosed {
		o.fail(optionError("a Latch has no fallback: without the store nobody knows the count"))
	}
	return &Latch{c: c, name: name, opts: o}
}

// TrySet sets the count, from 1 to MaxCount, if it is zero, and tells whether it
// did. It goes on trying while the store cannot be reached. With an error that is
// ErrUnavailable it is set or not; it is taken back in the background as far as
// possible. Errors: the cause of ctx; ErrDenied, ErrMismatch, ErrClosed, ErrInvalid.
func (l *Latch) TrySet(ctx context.Context, count int) (bool, error) {
	if l.opts.err == nil && (count < 1 || count > MaxCount) {
		return false, optionError("count %d: use 1 to %d", count, MaxCount)
	}
	call, leave, err := l.enter(ctx, "set")
	if err != nil {
		return false, err
	}
	defer leave()
	if why := call.over(); why != nil {
		return false, opError(call.op, l.name, why)
	}
	req := l.request(l.name, engine.KindLatch, 1, l.opts.ttl)
	req.Reason = countReason(count, l.opts.reason)
	set, err := l.set(call, req)
	if err != nil {
		withdraw := engine.Release{Resource: req.Resource, Held: engine.Held{ID: req.ID}, Withdraw: true}
		await(l.c.queueRelease(l.opts.ttl, withdraw), callGrace)
	}
	return set, err
}

// set asks for the gate until it is clear whether this request has set the latch.
func (l *Latch) set(call latchCall, req engine.Request) (bool, error) {
	var slow backoff
	for {
		ans, err := call.acquire(req)
		switch {
		case errors.Is(err, engine.ErrEnded):
			return true, nil // it was set by a copy of the request, and has ended since
		case err != nil:
			return false, err
		case ans.Status == engine.Granted:
			return true, nil
		case ans.Status == engine.Marked:
			if err := call.unmark(); err != nil {
				return false, err
			}
			continue
		}
		// The holder may be another request that sets the latch and fails, or a waiter of a
		// round that ended, which is on its way out.
		r, err := call.current()
		if err != nil {
			return false, err
		}
		if r != nil {
			full, err := call.full(r)
			if err != nil || !full {
				return false, err
			}
			call.open(r)
		}
		slow.pause(call.ctx)
	}
}

// CountDown lowers the count by one; whoever makes it zero lets the waiters go on.
// It does nothing if the count is zero. It goes on trying while the store cannot
// be reached. When it returns an error that is ErrUnavailable, it is unknown
// whether it has counted; the next CountDown of the same handle takes it up, so
// that a repeated call does not count twice. Errors: the cause of ctx; ErrDenied,
// ErrMismatch, ErrClosed, ErrInvalid.
func (l *Latch) CountDown(ctx context.Context) error {
	call, leave, err := l.enter(ctx, "count down")
	if err != nil {
		return err
	}
	defer leave()
	r, err := call.current()
	if r == nil {
		return err
	}
	u := l.take(r)
	req := l.request(r.units(l.name), kindUnits, r.count, r.left+latchSlack)
	req.ID = u.id
	err = call.takeUnit(req, r)
	switch {
	case errors.Is(err, engine.ErrEnded):
		return nil // a copy of the request had counted, and the round is over
	case err != nil:
		l.putBack(u)
		return err
	}
	// What fails from here on is made up for by those who wait.
	if full, _ := call.full(r); full {
		call.open(r)
	}
	return nil
}

// unit is one count in one round. Its ID makes it count once.
type unit struct {
	round uint64
	id    string
}

// take returns a unit of the round that a former call could not settle, or a new
// one.
func (l *Latch) take(r *latchRound) unit {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := len(l.unsettled) - 1; n >= 0; n-- {
		u := l.unsettled[n]
		l.unsettled = l.unsettled[:n]
		if u.round == r.held.Token {
			return u
		}
	}
	return unit{r.held.Token, l.c.newHolderID()}
}

func (l *Latch) putBack(u unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = append(l.unsettled, u)
}

// Count returns the count: 0 if the latch is not set, or its TTL has run out. The
// cost grows with what has been counted down. Errors are those of CountDown.
func (l *Latch) Count(ctx context.Context) (int, error) {
	call, leave, err := l.enter(ctx, "count of")
	if err != nil {
		return 0, err
	}
	defer leave()
	r, err := call.current()
	if r == nil {
		return 0, err
	}
	var s engine.Snapshot
	err = call.retry(func(ctx context.Context) (err error) {
		s, err = l.c.engine.Snapshot(ctx, l.c.resource(r.units(l.name)))
		return err
	})
	if err != nil {
		return 0, err
	}
	count := max(0, r.count-counted(s))
	if count > 0 {
		return count, nil
	}
	full, err := call.full(r)
	if err != nil || !full {
		return 1, err // a node that could not be asked may not have the last one
	}
	call.open(r) // whoever should have done so may be dead
	return 0, nil
}

// counted is how many units are taken for good. One that has so little time left was
// granted, but the CountDown that asked for it has yet to be told, or has died.
func counted(s engine.Snapshot) int {
	n := 0
	for _, h := range s.Holders {
		if h.TTL > engine.ClaimWindow {
			n++
		}
	}
	return n
}

// errOpened ends a wait for a latch.
var errOpened = errors.New("the count is zero")

// Wait returns nil when the count is zero: at once if the latch is not set. It
// waits until ctx ends, also while the store cannot be reached. A wake-up that is
// lost, or a process that dies as it makes the count zero, costs one poll of a
// second. Errors: ErrNotAcquired together with the cause of ctx, or with
// ErrLatchEnded; ErrDenied, ErrMismatch, ErrClosed, ErrInvalid.
func (l *Latch) Wait(ctx context.Context) error {
	call, leave, err := l.enter(ctx, "wait for")
	if err != nil {
		return err
	}
	defer leave()
	err = l.wait(ctx, call)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		return &waitError{l.name, context.Cause(ctx), err}
	}
	return err
}

func (l *Latch) wait(ctx context.Context, call latchCall) error {
	r, err := call.current()
	if r == nil {
		return err
	}
	own, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		end(l.watch(own, r))
	}()
	stop := func() {
		end(nil)
		<-watched
	}
	defer stop() // also if a hook panics
	// Those who wait stand in the gate's queue: the mark sends them away.
	lease, err := l.queue().lock(own, 1)
	stop()
	switch {
	case lease != nil:
		_ = lease.Release(ctx) // what is not confirmed goes on in the background
		return call.outcome(r)
	case endedBy(err, errMarked), endedBy(err, errOpened):
		return nil
	}
	return err
}

// queue is how waiters ask for the gate. One that gets it finds the round ended.
func (l *Latch) queue() *acquirer {
	lk := lockSpec{kind: engine.KindLatch, capacity: 1, opts: lockOptions{
		ttl: engine.ClaimWindow, noRenewal: true, reason: waitReason(l.opts.reason),
	}}.on(l.c, l.name)
	return &lk
}

// watch looks at the round at every poll and returns when it is over, and how.
func (l *Latch) watch(ctx context.Context, r *latchRound) error {
	bounded, cancel := until(ctx, l.c.life)
	defer cancel()
	call := latchCall{l, bounded, "wait for"}
	for {
		t := time.NewTimer(pollIn(engine.Answer{}, time.Now()))
		select {
		case <-t.C:
		case <-bounded.Done():
			t.Stop()
			return call.over()
		}
		now, err := call.current()
		if err != nil {
			return err
		}
		if now == nil || now.held != r.held {
			if err := call.outcome(r); err != nil {
				return err
			}
			return errOpened
		}
		full, err := call.full(r)
		if err != nil {
			return err
		}
		if full {
			call.open(r)
			return errOpened
		}
	}
}

func (l *Latch) request(name string, kind engine.Kind, capacity int, ttl time.Duration) engine.Request {
	return engine.Request{
		Resource: l.c.resource(name), ID: l.c.newHolderID(), Client: &l.c.info,
		Kind: kind, Capacity: capacity, Weight: 1, TTL: ttl,
	}
}

// enter admits a call.
func (l *Latch) enter(ctx context.Context, op string) (latchCall, func(), error) {
	if l.opts.err != nil {
		return latchCall{}, nil, l.opts.err
	}
	if !l.c.gate.enter() {
		return latchCall{}, nil, opError(op, l.name, ErrClosed)
	}
	call, cancel := until(ctx, l.c.life)
	return latchCall{l, call, op}, func() {
		cancel()
		l.c.gate.leave()
	}, nil
}

// ended is the error of those who waited in vain.
func (l *Latch) ended() error { return &waitError{l.name, ErrLatchEnded, nil} }

func countReason(count int, text string) string {
	if text == "" {
		return fmt.Sprintf("%s%d", countPrefix, count)
	}
	return fmt.Sprintf("%s%d: %s", countPrefix, count, text)
}

func waitReason(text string) string {
	if text == "" {
		return "wait"
	}
	return "wait: " + text
}
