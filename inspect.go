package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Snapshot is the state of a resource. A long one, of some hundred holders and
// waiters, is read in parts and is not of one instant: nobody is in it twice, and
// whoever holds or waits all the while is in it.
type Snapshot struct {
	Resource, Kind string
	Capacity       int
	Token          uint64        // highest token given or reserved so far
	Marked         time.Duration // time left of the mark "done" (Once, Job, Latch); 0: not marked
	Holders        []Holder      // in grant order
	Waiters        []Waiter      // in queue order
}

// Holder is a party with a live lease.
type Holder struct {
	ID, Name, Host string
	PID            int
	Reason         string
	Weight         int
	Token          uint64
	Since          time.Time     // by the store's clock
	TTL            time.Duration // left, unless it is renewed
}

// Waiter is a party in the store's queue. Callers that wait inside a process
// are behind one of them and are not listed.
type Waiter struct {
	ID, Name, Host string
	PID            int
	Reason         string
	Weight         int
	Since          time.Time // by the store's clock
}

// Snapshot tells who holds a resource and who waits for it. A resource that
// nobody uses gives an empty snapshot. Errors: ErrUnavailable, ErrDenied,
// ErrClosed, ErrInvalid.
func (c *Client) Snapshot(ctx context.Context, name string) (Snapshot, error) {
	if err := checkName(name); err != nil {
		return Snapshot{}, err
	}
	if !c.gate.enter() {
		return Snapshot{}, opError("snapshot of", name, ErrClosed)
	}
	defer c.gate.leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	s, err := c.engine.Snapshot(call, c.resource(name))
	if err != nil {
		return Snapshot{}, opError("snapshot of", name, err)
	}
	return snapshotOf(s), nil
}

// peek reads the state of a resource in brief.
func (c *Client) peek(ctx context.Context, name string) (engine.Brief, error) {
	if !c.gate.enter() {
		return engine.Brief{}, ErrClosed
	}
	defer c.gate.leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	return c.engine.Peek(call, c.resource(name))
}

// List yields the resources in use whose names match the pattern: '*' stands for
// any run of bytes, '?' for any one, a backslash takes the next byte as it is.
// It ends with the first error. What changes meanwhile may or may not be seen.
func (c *Client) List(ctx context.Context, pattern string) iter.Seq2[Snapshot, error] {
	return func(yield func(Snapshot, error) bool) {
		if !c.gate.enter() {
			yield(Snapshot{}, opError("list", pattern, ErrClosed))
			return
		}
		defer c.gate.leave()
		call, cancel := until(ctx, c.life)
		defer cancel()
		for s, err := range c.engine.List(call, c.prefix, pattern) {
			if err != nil {
				yield(Snapshot{}, opError("list", pattern, err))
				return
			}
			if !yield(snapshotOf(s), nil) {
				return
			}
		}
	}
}

// BreakOption configures one Break.
type BreakOption func(*engine.Break)

// Force ends a lease at once, although its holder may still act: fencing alone
// protects what it writes until it is told.
func Force() BreakOption { return func(b *engine.Break) { b.Force = true } }

// Break ends a lease, or a wait: for operators, when a holder hangs. The lease
// cannot be renewed from then on, and its holder is told, at once if a wake-up
// reaches it, else at its next renewal. The resource passes on when the holder's
// client has released the lease, at the latest when its TTL is over, so that there
// are never two; with Force it passes on in this step. A wait ends at once. A second
// Break of a lease that has not ended does no harm. Errors: ErrNotHeld if the
// holder ID neither holds nor waits; ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid.
func (c *Client) Break(ctx context.Context, name, holderID string, opts ...BreakOption) error {
	if err := checkName(name); err != nil {
		return err
	}
	if holderID == "" {
		return optionError("the holder ID is empty: take it from a snapshot")
	}
	b := engine.Break{ID: holderID}
	for _, opt := range opts {
		opt(&b)
	}
	return c.breakOff(ctx, "break", name, b, "by "+holderID)
}

// breakOff ends what b names, for an operation op. what completes "not held ...".
func (c *Client) breakOff(ctx context.Context, op, name string, b engine.Break, what string) error {
	if !c.gate.enter() {
		return opError(op, name, ErrClosed)
	}
	defer c.gate.leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	err := c.engine.Break(call, c.resource(name), b)
	var gone *engine.NotHeldError
	if errors.As(err, &gone) {
		err = fmt.Errorf("%w %s", ErrNotHeld, what)
	}
	if err != nil {
		return opError(op, name, err)
	}
	return nil
}

// Forget ends the mark of a resource, so that its work may be done again: name is the ID
// of a Once, or the name of a Job with AtLeast and no schedule. Work that is under way is
// not affected: it makes its mark when it is done. Errors: ErrNotHeld if nothing is marked;
// ErrMismatch for a Latch, whose mark says that it is open; ErrUnavailable, ErrDenied,
// ErrClosed, ErrInvalid.
func (c *Client) Forget(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	b, err := c.peek(ctx, name)
	if err == nil && b.Marked > 0 && b.Kind == engine.KindLatch {
		err = ErrMismatch
	}
	if err != nil {
		return opError("forget", name, err)
	}
	return c.breakOff(ctx, "forget", name, engine.Break{ID: engine.MarkID}, "as a mark")
}

func snapshotOf(s engine.Snapshot) Snapshot {
	out := Snapshot{Resource: s.Resource.Name, Kind: string(s.Kind), Capacity: s.Capacity, Token: s.Token, Marked: s.Marked}
	for _, h := range s.Holders {
		out.Holders = append(out.Holders, Holder{
			ID: h.ID, Name: h.Client.Name, Host: h.Client.Host, PID: h.Client.PID,
			Reason: h.Reason, Weight: h.Weight, Token: h.Token, Since: h.Since, TTL: h.TTL,
		})
	}
	for _, w := range s.Waiters {
		out.Waiters = append(out.Waiters, Waiter{
			ID: w.ID, Name: w.Client.Name, Host: w.Client.Host, PID: w.Client.PID,
			Reason: w.Reason, Weight: w.Weight, Since: w.Since,
		})
	}
	return out
}
