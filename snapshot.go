package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A Snapshot is the state of a resource. A long one, with some hundred holders
// and waiters, is read in parts and does not show one instant, but it contains
// each holder and waiter at most once, and all that hold or wait throughout the
// call.
type Snapshot struct {
	Resource, Kind string
	Capacity       int
	Token          uint64        // highest token given or reserved so far
	Marked         time.Duration // time until the mark "done" (Once, Job, Latch) ends; 0: not marked
	// MarkedBy is the lease that set the mark, without its TTL: Since is when the
	// work began. It may have ended. Zero if there is no mark, or the store has not
	// recorded it, as for a Latch. Name and Host are kept for an hour after the client's last lease.
	MarkedBy Holder
	Holders  []Holder // in grant order
	Waiters  []Waiter // in queue order
	// Dead are waiters from which the store has received nothing for 3 seconds, in queue order: their
	// processes died, or are paused or cut off. The queue passes them over, and they vanish some
	// seconds later. List leaves it empty, and so does a quorum.
	Dead []Waiter
	// NoWaiters: Waiters is not filled, so there may be some. It is set for a
	// quorum.
	NoWaiters bool
}

// A Holder is the holder of a live lease.
type Holder struct {
	ID, Name, Host string
	PID            int
	Reason         string
	Weight         int
	Token          uint64
	Since          time.Time     // by the store's clock
	TTL            time.Duration // left, unless it is renewed
	// Breaking: an operator broke the lease, and its holder has not released it yet.
	Breaking bool
	// Lingers: its client may keep the lease while no caller uses it; see
	// WithLinger. The store does not record whether it is in use now.
	Lingers bool
}

// A Waiter is a request in the store's queue. Callers that wait inside a process
// are behind one of them and are not listed.
type Waiter struct {
	ID, Name, Host string
	PID            int
	Reason         string
	Weight         int
	Since          time.Time     // by the store's clock
	Silent         time.Duration // of Dead: since the latest poll
}

// Snapshot returns the holders and waiters of a resource. For a resource that
// is not in use it returns an empty snapshot. Errors: ErrUnavailable,
// ErrDenied, ErrClosed, ErrInvalid.
func (c *Client) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	if err := checkName(name); err != nil {
		return Snapshot{}, err
	}
	if !c.gate.Enter() {
		return Snapshot{}, opError("snapshot of", name, ErrClosed)
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	s, err := c.engine.Snapshot(call, c.resource(name))
	if err != nil {
		return Snapshot{}, opError("snapshot of", name, c.cutShort(ctx, err))
	}
	return snapshotOf(s), nil
}

// Now returns the time of the store's clock, to which the instants of a Snapshot
// refer. Errors: ErrUnavailable, ErrDenied, ErrClosed.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	if !c.gate.Enter() {
		return time.Time{}, fmt.Errorf("holdfast: the store's time: %w", ErrClosed)
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	now, err := c.engine.Now(call)
	if err != nil {
		return time.Time{}, fmt.Errorf("holdfast: the store's time: %w", c.cutShort(ctx, err))
	}
	return now, nil
}

// peek returns the state of a resource in brief.
func (c *Client) peek(ctx context.Context, name string) (engine.Brief, error) {
	if !c.gate.Enter() {
		return engine.Brief{}, ErrClosed
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	b, err := c.engine.Peek(call, c.resource(name))
	return b, c.cutShort(ctx, err)
}

// List yields the resources in use whose names match the pattern: '*' matches
// any sequence of bytes, '?' any one byte, and a backslash makes the next byte
// literal. It ends with the first error. A resource that changes meanwhile may
// or may not appear.
func (c *Client) List(ctx context.Context, pattern string) iter.Seq2[Snapshot, error] {
	return c.each(ctx, "list", pattern, func(ctx context.Context) iter.Seq2[engine.Snapshot, error] {
		return c.engine.List(ctx, c.prefix, pattern)
	})
}

// Marks is List for the resources that are marked as done, by a Once, a Job or
// an open Latch; see Snapshot.Marked. The slots of a Job with a schedule have
// names of their own. Errors: those of List; ErrInvalid if the engine is not an
// engine.MarkLister.
func (c *Client) Marks(ctx context.Context, pattern string) iter.Seq2[Snapshot, error] {
	lister, ok := c.engine.(engine.MarkLister)
	if !ok {
		return func(yield func(Snapshot, error) bool) {
			yield(Snapshot{}, optionError("the engine cannot list marks"))
		}
	}
	return c.each(ctx, "list marks", pattern, func(ctx context.Context) iter.Seq2[engine.Snapshot, error] {
		return lister.ListMarks(ctx, c.prefix, pattern)
	})
}

// each yields the snapshots that the engine lists, for the operation op.
func (c *Client) each(ctx context.Context, op, pattern string, list func(context.Context) iter.Seq2[engine.Snapshot, error]) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		if !c.gate.Enter() {
			yield(Snapshot{}, opError(op, pattern, ErrClosed))
			return
		}
		defer c.gate.Leave()
		ends, end := context.WithCancel(ctx) // of a ctx that ends, the call also ends with the client
		defer end()
		call, cancel := until(ends, c.life)
		defer cancel()
		for s, err := range list(call) {
			if err == nil && c.life.Err() != nil {
				err = ErrClosed
			}
			if err != nil {
				yield(Snapshot{}, opError(op, pattern, c.cutShort(ends, err)))
				return
			}
			if !yield(snapshotOf(s), nil) {
				return
			}
		}
	}
}

// A BreakOption configures one Break.
type BreakOption func(*engine.Break)

// Force ends a lease at once. Its holder can still write until its context is
// cancelled; only fencing tokens reject those writes.
func Force() BreakOption { return func(b *engine.Break) { b.Force = true } }

// BreakReason sets a text for the holder or waiter (at most 256 bytes of UTF-8).
// It is the Reason of the holder's LostError, and part of the error of a wait.
// If a lease is broken several times, the latest reason that is not empty counts.
func BreakReason(text string) BreakOption { return func(b *engine.Break) { b.Reason = text } }

// Break ends a lease or a wait. It is for operators, when a holder hangs.
//
// A broken lease cannot be renewed. Its context is cancelled at once if a wake-up
// reaches the holder, otherwise at the next renewal. The resource is free when
// the holder's client has released the lease, at the latest when its TTL has
// passed, so there are never two holders; with [Force] it is free at once. A
// wait ends at once. A second break of a lease that has not ended is harmless.
//
// Errors: ErrNotHeld if holderID neither holds nor waits; ErrUnavailable, or
// ErrClosed if Close ended the call (whether it took effect is unknown, and
// it is safe to repeat); ErrDenied, ErrInvalid.
func (c *Client) Break(ctx context.Context, name, holderID string, opts ...BreakOption) error {
	if err := checkName(name); err != nil {
		return err
	}
	if holderID == "" {
		return optionError("the holder ID is empty: take it from a snapshot")
	}
	b := engine.Break{ID: holderID}
	for _, opt := range opts {
		if opt == nil {
			return optionError("a BreakOption is nil")
		}
		opt(&b)
	}
	if err := checkReason(b.Reason); err != nil {
		return err
	}
	return c.breakOff(ctx, "break", name, b, "by "+holderID)
}

// breakOff ends the lease, wait or mark that b names, for the operation op. what completes
// the text "not held ...".
func (c *Client) breakOff(ctx context.Context, op, name string, b engine.Break, what string) error {
	if !c.gate.Enter() {
		return opError(op, name, ErrClosed)
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	err := c.engine.Break(call, c.resource(name), b)
	if _, ok := errors.AsType[*engine.NotHeldError](err); ok {
		err = fmt.Errorf("%w %s", ErrNotHeld, what)
	}
	if err != nil {
		return opError(op, name, c.cutShort(ctx, err))
	}
	if b.Force {
		op += " by force"
	}
	c.recorder.broke(name, withReason(op, b.Reason))
	return nil
}

// Forget removes the mark of a resource, so that its work may be done again.
// name is the ID of a Once, or the name of a Job with AtLeast and no schedule.
// Work in progress is not affected: it sets its mark when it is done. Errors:
// ErrNotHeld if there is no mark; ErrMismatch for a Latch, whose mark means
// that it is open; ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid.
func (c *Client) Forget(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	b, err := c.peek(ctx, name)
	if err == nil && b.Marked > 0 && b.Kind == engine.KindLatch {
		err = mismatchWith(b, usage{engine.KindJob, 1})
	}
	if err != nil {
		return opError("forget", name, err)
	}
	return c.breakOff(ctx, "forget", name, engine.Break{ID: engine.MarkID}, "as a mark")
}

func snapshotOf(s engine.Snapshot) Snapshot {
	out := Snapshot{Resource: s.Resource.Name, Kind: string(s.Kind), Capacity: s.Capacity, Token: s.Token, Marked: s.Marked, NoWaiters: s.NoWaiters}
	if s.MarkedBy.ID != "" {
		out.MarkedBy = holderOf(s.MarkedBy)
	}
	for _, h := range s.Holders {
		is := holderOf(h)
		is.Lingers = s.Capacity == 1 && engine.Recallable(h.ID)
		out.Holders = append(out.Holders, is)
	}
	for _, w := range s.Waiters {
		out.Waiters = append(out.Waiters, waiterOf(w))
	}
	for _, w := range s.Dead {
		out.Dead = append(out.Dead, waiterOf(w))
	}
	return out
}

func waiterOf(w engine.Waiter) Waiter {
	return Waiter{
		ID: w.ID, Name: w.Client.Name, Host: w.Client.Host, PID: w.Client.PID,
		Reason: visible(w.Reason), Weight: w.Weight, Since: w.Since, Silent: w.Silent,
	}
}

func holderOf(h engine.Holder) Holder {
	return Holder{
		ID: h.ID, Name: h.Client.Name, Host: h.Client.Host, PID: h.Client.PID,
		Reason: visible(h.Reason), Weight: h.Weight, Token: h.Token, Since: h.Since, TTL: h.TTL, Breaking: h.Breaking,
	}
}
