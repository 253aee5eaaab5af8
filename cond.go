package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// condMark separates the names of the mutex and of the condition in the
	// resource name.
	condMark = "#cond:"
	// condTTL bounds how long a dead waiter can receive a signal instead of a
	// live one.
	condTTL = 3 * time.Second
	// condCapacity exceeds the number of waiters.
	condCapacity = 1 << 20
)

// CondTimeout is the time after which Wait returns without a signal. It makes
// up for a signal that went to a waiter whose process then died.
const CondTimeout = 30 * time.Second

// A Cond is a distributed condition variable bound to a Mutex. It is a handle:
// safe for concurrent use, cheap, and the same condition for every client that
// uses the same names of mutex and condition.
//
// As with sync.Cond, call Wait in a loop: others may hold the mutex between the
// signal and the return of Wait, and Wait may return without a signal, if the
// store was unreachable for about 3 s, if the store lost its data, or after
// CondTimeout.
//
//	for !ready() {
//		next, err := cond.Wait(ctx, lease)
//		if err != nil {
//			return err // the mutex is not held any more
//		}
//		lease = next
//	}
//
// A condition is a resource of the store, "mutex#cond:name". Every waiter holds
// one unit of it, and a signal breaks that lease. Operators see the waiters in
// a Snapshot, and a Break of one of them is a signal too.
type Cond struct {
	m  *Mutex
	lk acquirer
}

// Cond returns a handle for a condition of the mutex. It makes no call to the
// store. The name must be UTF-8 and must not contain "#cond:", and together
// with the mutex's name it is at most MaxNameLen − 6 bytes long; otherwise the
// methods return ErrInvalid.
func (m *Mutex) Cond(name string) *Cond {
	o := lockOptions{ttl: condTTL, noTenure: true, reason: m.opts.reason, err: m.opts.err}
	switch full := m.name + condMark + name; {
	case name == "":
		o.fail(optionError("the condition of %q has no name: use a name such as %q", m.name, "not empty"))
	case strings.Contains(name, condMark):
		o.fail(optionError("the name of the condition %q contains %q", name, condMark))
	case checkName(full) != nil:
		o.fail(fmt.Errorf("%w (of the condition %q)", checkName(full), name))
	}
	return &Cond{m: m, lk: lockSpec{kind: engine.KindCond, capacity: condCapacity, opts: o}.on(m.c, m.name+condMark+name)}
}

// Wait releases l, a lease of the mutex, waits for a signal, and acquires the
// mutex again in turn. It returns a new lease with a new token. The caller is a
// waiter before l is released, so the next holder's signal reaches it. A signal
// whose wake-up is lost is seen within about a second.
//
// If Wait returns an error, the mutex is not held, also if ctx ended: l was
// released or lost. Only ErrInvalid, ErrMismatch, ErrNotHeld and ErrDeadlock,
// which report a mistake of the caller, leave l unchanged. ctx must not be l's
// own Context, which ends when l is released. If ctx ends after the signal, the
// signal goes to the next waiter.
//
// Errors: ErrNotAcquired with the cause of ctx; ErrLost if l was lost;
// ErrMismatch if l is not a lease of this mutex alone, or if the condition's
// resource is in use as another kind; ErrNotHeld if l was released; ErrDeadlock
// if re-entrant leases share l; ErrUnavailable if l was granted without the
// store, see [WithFallback]; those of [Mutex.Lock].
func (c *Cond) Wait(ctx context.Context, l *Lease) (*Lease, error) {
	needContext(ctx)
	if err := c.usable(ctx, l); err != nil {
		return nil, err
	}
	if !c.lk.c.gate.Enter() {
		return nil, &waitError{c.lk.name, ErrClosed, nil}
	}
	defer c.lk.c.gate.Leave()
	listens := c.lk.c.wakeups.live()
	h, err := c.enter(ctx, l)
	if errors.Is(err, ErrMismatch) {
		return nil, err
	}
	if err != nil {
		if rel := l.Release(ctx); errors.Is(rel, ErrLost) {
			err = rel
		}
		return nil, err
	}
	signalled, returns := h == nil, false
	defer func() {
		if !returns { // a hook panics
			c.withdraw(h, signalled)
		}
	}()
	// Only now: the next holder of the mutex must find the caller waiting.
	if err := l.Release(ctx); err != nil && (errors.Is(err, ErrLost) || !errors.Is(err, ErrUnavailable)) {
		returns = true
		await(c.withdraw(h, signalled), callGrace)
		return nil, err
	}
	if !signalled {
		signalled, err = c.sleep(ctx, h, listens)
	}
	next, err := c.wakeUp(ctx, h, signalled, err)
	returns = true
	return next, err
}

// usable checks the lease that Wait is about to release.
func (c *Cond) usable(ctx context.Context, l *Lease) error {
	if c.lk.opts.err != nil {
		return c.lk.opts.err
	}
	if l == nil {
		return opError("wait for", c.lk.name, fmt.Errorf("%w: the lease is nil", ErrNotHeld))
	}
	if s, ok := l.grant.(*fallbackGrant); ok && s.covers(c.m.c, c.m.resource()) {
		_ = l.Release(ctx) // after an error other than a mistake, nothing is held
		return opError("wait for", c.lk.name, fmt.Errorf("%w: the lease was granted without the store", ErrUnavailable))
	}
	h, ok := l.grant.(*storeGrant)
	if !ok || h.client() != c.m.c || h.acquirer.kind != c.m.kind || h.acquirer.resource() != c.m.c.resource(c.m.name) {
		return opError("wait for", c.lk.name, fmt.Errorf("%w: the lease is of %q, not of the mutex alone", ErrMismatch, l.grant.resource()))
	}
	switch err := l.Err(); {
	case errors.Is(err, ErrReleased):
		return opError("wait for", c.lk.name, fmt.Errorf("%w: %w", ErrNotHeld, err))
	case err != nil:
		return err
	case !h.single():
		return &waitError{c.lk.name, fmt.Errorf("%w: re-entrant leases share the lease", ErrDeadlock), nil}
	case leaseIn(ctx, c.m.c, c.m.resource()) != nil:
		return optionError("the ctx of Wait carries the lease, so it ends when Wait releases the lease: use the ctx that was passed to Lock")
	}
	return nil
}

// enter makes the caller a waiter of the condition, unless l is lost first. It
// returns nil if a signal came at once.
func (c *Cond) enter(ctx context.Context, l *Lease) (h *storeGrant, err error) {
	held, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	l.notify(interrupt)
	a := c.lk.newAttempt(1, nil, andWait, SpanRef{})
	defer func() {
		if h == nil {
			a.endWait(ctx, localTurn{})
		}
	}()
	h, _, err = a.run(held, nil)
	if endedByBreak(err) {
		return nil, nil
	}
	return h, err
}

// sleep waits until the caller is no longer a waiter, or the wait has to end.
// It reports whether a signal is known to have come.
func (c *Cond) sleep(ctx context.Context, h *storeGrant, listened bool) (signalled bool, err error) {
	ended := h.watch(ctx)
	if !listened {
		c.listen(ctx, h)
	}
	select {
	case <-ended:
	case <-time.After(CondTimeout):
	case <-ctx.Done():
		err = c.lk.c.waitOver(ctx, c.lk.name, nil)
	case <-c.lk.c.life.Done():
		err = c.lk.c.waitOver(ctx, c.lk.name, nil)
	}
	lost, ok := errors.AsType[*LostError](h.endError())
	return ok && lost.Cause == LostBroken, err
}

// watch returns a channel that is closed when the grant ends. The grant stays
// between local turns: no lease is in use, so its end is not logged or
// reported to hooks as a loss.
func (h *storeGrant) watch(ctx context.Context) <-chan struct{} {
	h.mu.Lock()
	if h.state == grantEnded {
		h.mu.Unlock()
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	l := h.addLease(ctx)
	h.mu.Unlock()
	return l.Done()
}

// listen opens the stream of wake-ups and checks once more, since a signal may
// have come before. If it fails, the next renewal finds the signal.
func (c *Cond) listen(ctx context.Context, h *storeGrant) {
	_, _ = c.lk.c.wakeups.listen(ctx)
	if !c.lk.c.wakeups.live() {
		return
	}
	call, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.lk.c.engine.Renew(call, []engine.Renewal{h.Renewal()})[0]
	if gone, ok := errors.AsType[*engine.NotHeldError](err); ok {
		h.lose(h.gone(gone))
	}
}

// wakeUp acquires the mutex again, unless err has ended the wait.
func (c *Cond) wakeUp(ctx context.Context, h *storeGrant, signalled bool, err error) (*Lease, error) {
	if !signalled {
		gone := c.withdraw(h, false)
		if err != nil {
			await(gone, callGrace) // usually nothing is left then
		}
	}
	if err == nil {
		var l *Lease
		if l, err = c.m.acquire(ctx, 1, andWait); err == nil {
			return l, nil
		}
	}
	if signalled {
		c.withdraw(h, true)
	}
	return nil, err
}

// withdraw removes a waiter from the store in the background, unless it was signalled.
// If it was, or a signal arrives before it is removed, another waiter is signalled, since
// the caller either fails or checks its condition without a signal.
func (c *Cond) withdraw(h *storeGrant, signalled bool) <-chan struct{} {
	return c.lk.c.background(releaseRetryMin, func(ctx context.Context) {
		if signalled || c.releaseWaiter(ctx, h) {
			_ = retry(ctx, noLimit, func() error { return c.wake(ctx, c.lk.c.tasks, fresh) })
		}
	})
}

// releaseWaiter removes a waiter from the store and reports whether the store had a
// signal for it.
func (c *Cond) releaseWaiter(ctx context.Context, h *storeGrant) bool {
	h.end(nil)
	defer h.endJeopardy(ErrReleased)
	if h.unsure { // after the release: a withdrawal does not return how the wait ended
		defer func() { c.lk.c.queueRelease(condTTL, h.releaseRequest()) }()
	}
	r := h.releaseRequest()
	r.Withdraw = false
	err := retry(ctx, noLimit, func() error {
		call, cancel := context.WithTimeout(ctx, releaseGrace)
		defer cancel()
		return c.lk.c.engine.Release(call, r)
	})
	return signalled(err)
}

// signalled reports whether the release of a waiter answered that a signal had ended its wait.
func signalled(err error) bool {
	gone, ok := errors.AsType[*engine.NotHeldError](err)
	return ok && gone.Cause == engine.CauseBroken
}

// Signal wakes the waiter that has waited longest. If there is none it does
// nothing: signals are not remembered. The caller need not hold the mutex, but
// must have held it to change what the waiters check. If a waiter's renewal is
// late, the waiter may be dead, so the next one is woken as well.
//
// Errors: ErrUnavailable, or ErrClosed if Close ended the call (whether a waiter
// was woken is unknown; it is safe to repeat the call), ErrMismatch, ErrDenied, ErrInvalid.
func (c *Cond) Signal(ctx context.Context) error { return c.call(ctx, "signal", fresh) }

// Broadcast wakes all waiters present at the time of the call, in order and one
// by one. Errors are those of Signal; if it fails, some waiters may have been
// woken.
func (c *Cond) Broadcast(ctx context.Context) error {
	return c.call(ctx, "broadcast", func(engine.Holder) bool { return false })
}

// fresh reports whether a waiter has renewed recently; it renews every TTL/3.
func fresh(h engine.Holder) bool { return h.TTL > condTTL/2 }

func (c *Cond) call(ctx context.Context, op string, enough func(engine.Holder) bool) error {
	if c.lk.opts.err != nil {
		return c.lk.opts.err
	}
	if !c.lk.c.gate.Enter() {
		return opError(op, c.lk.name, ErrClosed)
	}
	defer c.lk.c.gate.Leave()
	call, cancel := until(ctx, c.lk.c.life)
	defer cancel()
	if err := c.wake(call, c.lk.c.life, enough); err != nil {
		return opError(op, c.lk.name, c.lk.c.cutShort(ctx, err))
	}
	return nil
}

// wake wakes waiters, first come, first served, until enough returns true, or until
// end, which ends with the client also if ctx never ends. It
// reads a few at a time, so that its cost does not grow with their number. A
// waiter that is not found was woken by another signal or has left. Waiters
// that came after the first read are not woken.
func (c *Cond) wake(ctx, end context.Context, enough func(engine.Holder) bool) error {
	res := c.lk.c.resource(c.lk.name)
	tried := make(map[string]bool)
	for last := uint64(math.MaxUint64); ; {
		b, err := c.lk.c.engine.Peek(ctx, res)
		if err == nil && (len(b.Holders) > 0 || b.More) && b.Kind != engine.KindCond {
			err = mismatchWith(b, c.lk.usage())
		}
		if err != nil {
			return err
		}
		last = min(last, b.Token)
		more := false
		for _, h := range b.Holders { // by token: in the order of arrival
			if tried[h.ID] || h.Token > last {
				continue
			}
			if end.Err() != nil {
				return ErrClosed
			}
			more, tried[h.ID] = b.More, true
			err := c.lk.c.engine.Break(ctx, res, engine.Break{ID: h.ID, Token: h.Token, Force: true}) // a waiter does no work under its lease
			_, gone := errors.AsType[*engine.NotHeldError](err)
			switch {
			case gone:
			case err != nil:
				return err
			case enough(h):
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}
