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
	// condMark stands between the names of a mutex and of its condition in the
	// name of the resource.
	condMark = "#cond:"
	// condTTL is how long a waiter that died can take a signal from the others.
	condTTL = 3 * time.Second
	// condCapacity is more than there are waiters.
	condCapacity = 1 << 20
)

// CondPatience is after how long without a signal Wait returns by itself, so that
// a signal that went to a waiter whose process died then is made up for.
const CondPatience = 30 * time.Second

// Cond is a condition of what a Mutex protects, for which its holders wait, on
// whatever machines. It is a handle: safe for concurrent use, cheap, and the same
// condition for every client that names the same mutex and condition.
//
// As with sync.Cond, a waiter looks again in a loop, since others may hold the
// mutex between the signal and the end of the Wait, and since a Wait may return
// without a signal: when it lost touch with the store for about 3 s, when the
// store lost its data, and after CondPatience.
//
//	for !ready() {
//		next, err := cond.Wait(ctx, lease)
//		if err != nil {
//			return err // the mutex is not held any more
//		}
//		lease = next
//	}
//
// A condition is a resource of the store, "mutex#cond:name", that every waiter
// holds one unit of, and a signal takes it away from them: operators see who waits
// in a Snapshot, and a Break there is a signal too.
type Cond struct {
	m  *Mutex
	lk acquirer
}

// Cond returns a handle on a condition of the mutex. It costs nothing until it is
// used. A name is UTF-8 without "#cond:", with that of the mutex at most
// MaxNameLen − 6 bytes long; otherwise the methods return ErrInvalid.
func (m *Mutex) Cond(name string) *Cond {
	o := lockOptions{ttl: condTTL, noTenure: true, reason: m.opts.reason, err: m.opts.err}
	switch full := m.name + condMark + name; {
	case name == "":
		o.fail(optionError("the condition of %q has no name: name what is waited for, like %q", m.name, "not empty"))
	case strings.Contains(name, condMark):
		o.fail(optionError("the name of the condition %q contains %q", name, condMark))
	case checkName(full) != nil:
		o.fail(fmt.Errorf("%w (it stands for the condition %q)", checkName(full), name))
	}
	return &Cond{m: m, lk: lockSpec{kind: engine.KindCond, capacity: condCapacity, opts: o}.on(m.c, m.name+condMark+name)}
}

// Wait releases l, a lease of the mutex, waits for a signal, and takes the mutex
// again in turn. It returns a new lease with a new token. Whoever gets the mutex
// after l finds the caller waiting already: no signal is missed. A signal whose
// wake-up gets lost is seen within about a second.
//
// With an error the mutex is not held: l was released or lost, also if ctx ended.
// Only ErrInvalid, ErrMismatch, ErrNotHeld and ErrDeadlock, which tell of a mistake
// of the caller, leave l as it is. ctx must not be of l's own Context, which ends
// with l. A signal that a caller cannot use any more, since its ctx ends, goes to
// the next waiter.
//
// Errors: ErrNotAcquired with the cause of ctx; ErrLost if l was lost; ErrMismatch
// if l is not a lease of this mutex alone, or the condition's resource is in use as
// something else; ErrNotHeld if it was released;
// ErrDeadlock if re-entrant leases stand on it; ErrUnavailable if it was granted
// without the store, see WithFallback; those of Mutex.Lock.
func (c *Cond) Wait(ctx context.Context, l *Lease) (*Lease, error) {
	needContext(ctx)
	if err := c.usable(ctx, l); err != nil {
		return nil, err
	}
	if !c.lk.c.gate.enter() {
		return nil, &waitError{c.lk.name, ErrClosed, nil}
	}
	defer c.lk.c.gate.leave()
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
			c.depart(h, signalled)
		}
	}()
	// Only now: who gets the mutex next must find the caller waiting.
	if err := l.Release(ctx); err != nil && (errors.Is(err, ErrLost) || !errors.Is(err, ErrUnavailable)) {
		returns = true
		await(c.depart(h, signalled), callGrace)
		return nil, err
	}
	if !signalled {
		signalled, err = c.sleep(ctx, h, listens)
	}
	next, err := c.wakeUp(ctx, h, signalled, err)
	returns = true
	return next, err
}

// usable checks the lease that a Wait shall release.
func (c *Cond) usable(ctx context.Context, l *Lease) error {
	if c.lk.opts.err != nil {
		return c.lk.opts.err
	}
	if l == nil {
		return opError("wait for", c.lk.name, fmt.Errorf("%w: the lease is nil", ErrNotHeld))
	}
	if s, ok := l.grant.(*fallbackGrant); ok && s.covers(c.m.c, c.m.resource()) {
		_ = l.Release(ctx) // an error that is no mistake leaves nothing held
		return opError("wait for", c.lk.name, fmt.Errorf("%w: the lease was granted without it", ErrUnavailable))
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
		return &waitError{c.lk.name, fmt.Errorf("%w: re-entrant leases stand on it", ErrDeadlock), nil}
	case leaseIn(ctx, c.m.c, c.m.resource()) != nil:
		return optionError("the ctx of Wait is that of the lease, which ends when Wait releases it: use the one that Lock was given")
	}
	return nil
}

// enter makes the caller a waiter of the condition, unless l is lost before. It
// returns nil if a signal came at once.
func (c *Cond) enter(ctx context.Context, l *Lease) (h *storeGrant, err error) {
	held, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	l.notify(interrupt)
	call, cancel := until(held, c.lk.c.life)
	defer cancel()
	a := c.lk.newAttempt(1, nil)
	defer func() {
		if h == nil {
			a.endWait(ctx)
		}
	}()
	h, _, err = a.run(held, call)
	if endedBy(err, errBrokenWait) {
		return nil, nil
	}
	return h, err
}

// sleep waits until the caller is not a waiter any more, or has reason not to
// stay. It tells whether a signal is known to have come.
func (c *Cond) sleep(ctx context.Context, h *storeGrant, listened bool) (signalled bool, err error) {
	ended := h.watch(ctx)
	if !listened {
		c.listen(ctx, h)
	}
	t := time.NewTimer(CondPatience)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
	case <-ctx.Done():
		err = &waitError{c.lk.name, context.Cause(ctx), nil}
	case <-c.lk.c.life.Done():
		err = &waitError{c.lk.name, ErrClosed, nil}
	}
	var lost *LostError
	return errors.As(h.ending(), &lost) && lost.Cause == LostBroken, err
}

// watch returns a channel that is closed when the holding ends. The holding stays
// between turns: nobody acts by it, so its end is no loss to log or to tell hooks.
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

// listen opens the stream of wake-ups and looks again, since a signal may have
// come before. Without the stream the next renewal finds it.
func (c *Cond) listen(ctx context.Context, h *storeGrant) {
	_, _ = c.lk.c.wakeups.listen(ctx)
	if !c.lk.c.wakeups.live() {
		return
	}
	call, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := c.lk.c.engine.Renew(call, []engine.Renewal{h.Renewal()})[0]
	var gone *engine.NotHeldError
	if errors.As(err, &gone) {
		h.lose(h.gone(gone))
	}
}

// wakeUp takes the mutex again, unless err has ended the wait.
func (c *Cond) wakeUp(ctx context.Context, h *storeGrant, signalled bool, err error) (*Lease, error) {
	if !signalled {
		gone := c.depart(h, false)
		if err != nil {
			await(gone, callGrace) // usually nothing is left then
		}
	}
	if err == nil {
		var l *Lease
		if l, err = c.m.lock(ctx, 1); err == nil {
			return l, nil
		}
	}
	if signalled {
		c.depart(h, true)
	}
	return nil, err
}

// depart takes a waiter that was not signalled out of the store. If a signal had
// come for it, or comes to what the store still has of it, another waiter gets
// that: the caller either gives up, or will have taken the mutex and look without.
func (c *Cond) depart(h *storeGrant, signalled bool) <-chan struct{} {
	client, ended := c.lk.c, make(chan struct{})
	if !client.gate.joinCleanup() {
		close(ended)
		return ended
	}
	go func() {
		defer client.gate.leave()
		defer close(ended)
		ctx, cancel := context.WithTimeout(client.tasks, releaseRetryMin)
		defer cancel()
		var slow backoff
		if !signalled && !c.leave(ctx, h, &slow) {
			return
		}
		for errors.Is(c.wake(ctx, "signal", fresh), ErrUnavailable) && slow.pause(ctx) {
		}
	}()
	return ended
}

// leave tells whether the store had a signal for the waiter.
func (c *Cond) leave(ctx context.Context, h *storeGrant, slow *backoff) bool {
	h.end(nil)
	if h.unsure { // a withdrawal does not say what it found, so it comes after
		defer func() { c.lk.c.queueRelease(condTTL, h.releaseRequest()) }()
	}
	r := h.releaseRequest()
	r.Withdraw = false
	for {
		call, cancel := context.WithTimeout(ctx, releaseGrace)
		err := c.lk.c.engine.Release(call, r)
		cancel()
		var gone *engine.NotHeldError
		switch {
		case errors.As(err, &gone):
			return gone.Cause == engine.CauseBroken
		case !errors.Is(err, ErrUnavailable) || !slow.pause(ctx):
			return false
		}
	}
}

// Signal wakes the one that has waited for longest. With nobody waiting it does
// nothing: signals are not remembered. A caller need not hold the mutex, but must
// have held it to change what the waiters look at. A waiter that seems to have
// died, since it is late with its renewal, is passed over in that the next one is
// woken too. Errors: ErrUnavailable (whether it woke one is unknown; to repeat it
// does no harm), ErrMismatch, ErrDenied, ErrClosed, ErrInvalid.
func (c *Cond) Signal(ctx context.Context) error { return c.call(ctx, "signal", fresh) }

// Broadcast wakes all that wait when it is called, in their order and one by one.
// Errors as for Signal, when some of them may have been woken.
func (c *Cond) Broadcast(ctx context.Context) error {
	return c.call(ctx, "broadcast", func(engine.Holder) bool { return false })
}

// fresh tells whether a waiter is alive, as far as its latest renewal tells: it
// comes every third of the TTL.
func fresh(h engine.Holder) bool { return h.TTL > condTTL/2 }

func (c *Cond) call(ctx context.Context, op string, enough func(engine.Holder) bool) error {
	if c.lk.opts.err != nil {
		return c.lk.opts.err
	}
	if !c.lk.c.gate.enter() {
		return opError(op, c.lk.name, ErrClosed)
	}
	defer c.lk.c.gate.leave()
	call, cancel := until(ctx, c.lk.c.life)
	defer cancel()
	return c.wake(call, op, enough)
}

// wake wakes those who wait, first come, first served, until it was enough. It looks
// at a few at a time, so that its cost does not grow with those who wait. Whoever is
// not found any more was woken by another signal or has gone, and who came after the
// first look was not meant.
func (c *Cond) wake(ctx context.Context, op string, enough func(engine.Holder) bool) error {
	res := c.lk.c.resource(c.lk.name)
	tried := make(map[string]bool)
	for last := uint64(math.MaxUint64); ; {
		b, err := c.lk.c.engine.Peek(ctx, res)
		if err == nil && (len(b.Holders) > 0 || b.More) && b.Kind != engine.KindCond {
			err = ErrMismatch
		}
		if err != nil {
			return opError(op, c.lk.name, err)
		}
		last = min(last, b.Token)
		more := false
		for _, h := range b.Holders { // by token: in the order in which they came
			if tried[h.ID] || h.Token > last {
				continue
			}
			more, tried[h.ID] = b.More, true
			err := c.lk.c.engine.Break(ctx, res, engine.Break{ID: h.ID, Token: h.Token, Force: true}) // its time is over: nobody acts under it
			var gone *engine.NotHeldError
			switch {
			case errors.As(err, &gone):
			case err != nil:
				return opError(op, c.lk.name, err)
			case enough(h):
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}
