package holdfast

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxCount is the maximum count of a Latch. On PostgreSQL, MySQL, SQLite, etcd and ZooKeeper, where it is in one document, a
// count above some 8,000 cannot be counted down to zero: the CountDown that does not fit returns ErrDenied.
const MaxCount = 1 << 16

// ErrLatchEnded: the latch ended before its count was zero: its TTL ran out, an
// operator broke it, or the store lost its data.
var ErrLatchEnded = errors.New("the latch ended before its count was zero")

// A Latch is a count that goes down to zero, once, and then releases all
// waiters: for a step that begins when every part of the previous one is done.
//
// A latch lives for its TTL, by default 24 hours, counted from TrySet, and is
// not renewed. When the TTL has run out, the latch is as if it had never been
// set, and waiters get ErrLatchEnded; the same happens if the store loses its
// data. The count survives the processes that set it and that counted down. A
// CountDown never counts twice, and is not lost with a lost reply. But whether
// a process that is killed in CountDown has counted is unknown, so if another
// process then repeats its work, that work may be counted twice.
type Latch struct {
	c    *Client
	name string
	opts lockOptions

	mu        sync.Mutex
	unsettled []unit // whether they have counted is unknown
}

// Latch returns a handle for a count-down latch. It makes no call to the store.
// WithTTL sets the lifetime of the latch (default MaxTTL) and matters to TrySet
// only. A latch has no fallback, and its name has at most 485 bytes.
func (c *Client) Latch(name string, opts ...LockOption) *Latch {
	o := lockOptionsOf(name, append([]LockOption{WithTTL(MaxTTL)}, opts...))
	if len(name) > MaxNameLen-longestUnitsName {
		o.fail(optionError("the latch's name has %d bytes: use at most %d", len(name), MaxNameLen-longestUnitsName))
	}
	if o.fallback != FailClosed {
		o.fail(optionError("a Latch has no fallback: without the store the count is unknown"))
	}
	return &Latch{c: c, name: name, opts: o}
}

// TrySet sets the count, 1 to MaxCount, if it is zero, and reports whether it
// did. While the store is unavailable it retries until ctx ends. If the error
// matches ErrUnavailable, it is unknown whether the count was set; the client
// withdraws it in the background as far as possible. Errors: the cause of ctx;
// ErrDenied, ErrMismatch, ErrClosed, ErrInvalid.
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
	req := l.request(l.name, gateUsage(), gateWeight(count), l.opts.ttl)
	req.Reason = joinSpan(l.opts.reason, SpanRef{})
	return l.set(call, req)
}

// set requests the gate until it is known whether this request has set the
// latch. If it has not, copies that are still under way must not set it later.
func (l *Latch) set(call latchCall, req engine.Request) (set bool, err error) {
	unsure := false
	defer func() {
		if err != nil || unsure && !set {
			withdraw := engine.Release{Resource: req.Resource, Held: engine.Held{ID: req.ID}, Withdraw: true}
			await(l.c.queueRelease(l.opts.ttl, withdraw), callGrace)
		}
	}()
	var slow backoff
	for {
		ans, copied, err := call.acquire(req)
		unsure = unsure || copied
		switch {
		case errors.Is(err, engine.ErrEnded):
			return true, nil // a copy of the request set the latch, which has ended since
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
		// The holder may be another request that sets the latch and fails, or a waiter of an
		// earlier round that is about to release.
		r, err := call.current()
		if err != nil {
			return false, err
		}
		if r != nil && r.held.ID != req.ID { // of a quorum the next answer may have what its nodes have granted since
			full, err := call.full(r)
			if err != nil || !full {
				return false, err
			}
			call.open(r)
		}
		slow.pause(call.ctx)
	}
}

// CountDown lowers the count by one; at zero, all waiters are released. If the
// count is zero it does nothing. While the store is unavailable it retries
// until ctx ends. If the error matches ErrUnavailable, it is unknown whether
// the call has counted; the next CountDown of the same handle continues it, so
// that a repeated call does not count twice. Errors: the cause of ctx;
// ErrDenied, ErrMismatch, ErrClosed, ErrInvalid.
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
	req := l.request(r.units(l.name), r.unitsUsage(), 1, r.left+latchSlack)
	req.ID = u.id
	err = call.takeUnit(req, r)
	switch {
	case errors.Is(err, engine.ErrEnded):
		return nil // a copy of the request has counted, and the round is over
	case err != nil:
		l.putBack(u)
		return err
	}
	// If this fails, a waiter does it.
	if full, _ := call.full(r); full {
		call.open(r)
	}
	return nil
}

// unit is one count in one round. Because of its ID it counts only once.
type unit struct {
	round uint64
	id    string
}

// take returns a unit of the round whose outcome an earlier call left unknown,
// or a new one. Those of later rounds stay: its call may have been slow.
func (l *Latch) take(r *latchRound) unit {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = slices.DeleteFunc(l.unsettled, func(u unit) bool { return u.round < r.held.Token })
	n := slices.IndexFunc(l.unsettled, func(u unit) bool { return u.round == r.held.Token })
	if n < 0 {
		return unit{r.held.Token, l.c.newHolderID()}
	}
	u := l.unsettled[n]
	l.unsettled = slices.Delete(l.unsettled, n, n+1)
	return u
}

func (l *Latch) putBack(u unit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = append(l.unsettled, u)
}

// Count returns the count. It is 0 if the latch is not set or its TTL has run
// out. The cost of the call grows with the units counted down. Errors are those
// of CountDown.
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
		return 1, err // the last unit may be missing on a node that did not answer
	}
	call.open(r) // the process that took the last unit may have died before it did so
	return 0, nil
}

// counted returns the number of units that are taken for good. A unit with at
// most ClaimWindow left was granted, but its CountDown has not received the
// grant yet, or its process has died.
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
// waits until ctx ends, also while the store is unavailable. If a wake-up is
// lost, or a process dies as it lowers the count to zero, Wait returns with its
// next poll, within a second. Errors: ErrNotAcquired with the cause of ctx or with ErrLatchEnded;
// ErrDenied, ErrMismatch, ErrClosed, ErrInvalid.
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
	// Waiters are in the gate's queue, and the mark removes them from it.
	lease, err := l.queue().acquire(own, gateUsage().capacity, andWait)
	stop()
	switch {
	case lease != nil:
		_ = lease.Release(ctx) // retried in the background
		return call.outcome(r)
	case endedBy(err, errMarked), endedBy(err, errOpened):
		return nil
	}
	return err
}

// queue returns the lock with which waiters queue for the gate. A waiter that
// acquires it finds that the round has ended.
func (l *Latch) queue() *acquirer {
	lk := lockSpec{kind: gateUsage().kind, capacity: gateUsage().capacity, opts: lockOptions{
		ttl: engine.ClaimWindow, noRenewal: true, reason: l.opts.reason,
	}}.on(l.c, l.name)
	return &lk
}

// watch reads the round at every poll until the round is over, and returns how
// it ended.
func (l *Latch) watch(ctx context.Context, r *latchRound) error {
	bounded, cancel := until(ctx, l.c.life)
	defer cancel()
	call := latchCall{l, bounded, "wait for"}
	for {
		if !sleep(bounded, pollIn(engine.Answer{}, time.Now())) {
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

func (l *Latch) request(name string, of usage, weight int, ttl time.Duration) engine.Request {
	return engine.Request{
		Resource: l.c.resource(name), ID: l.c.newHolderID(), Client: &l.c.info,
		Kind: of.kind, Capacity: of.capacity, Weight: weight, TTL: ttl,
	}
}

// enter admits a call.
func (l *Latch) enter(ctx context.Context, op string) (latchCall, func(), error) {
	if l.opts.err != nil {
		return latchCall{}, nil, l.opts.err
	}
	needContext(ctx) // first: the gate counts no call that panics
	if !l.c.gate.Enter() {
		return latchCall{}, nil, opError(op, l.name, ErrClosed)
	}
	call, cancel := until(ctx, l.c.life)
	return latchCall{l, call, op}, func() {
		cancel()
		l.c.gate.Leave()
	}, nil
}

// ended returns the error of waiters whose latch ended.
func (l *Latch) ended() error { return &waitError{l.name, ErrLatchEnded, nil} }
