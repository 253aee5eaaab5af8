package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// leastWait is the minimum wait for a lock that cannot be tried without queueing, also with
// -w 0: the store needs time to answer.
const leastWait = time.Second

// firstTry runs before the wait. It returns neither lease nor error if the caller has to wait.
type firstTry func(ctx context.Context, s *session, say *reporter) (*holdfast.Lease, error)

// acquire acquires the lease according to the flags. Every error has its exit code, or
// gets it from explain.
func (c *guarded) acquire(s *session, sigs <-chan os.Signal, say *reporter, first firstTry) (*holdfast.Lease, error) {
	ctx, stop := endBySignal(sigs)
	start := time.Now()
	lease, err := first(ctx, s, say)
	if lease == nil {
		c.ahead.drop()
		c.ahead = nil
	}
	if lease == nil && err == nil {
		lease, err = c.waitForLease(ctx, s, say, start)
	}
	stop()
	if sig := signalOf(ctx); sig != nil {
		if lease != nil {
			_ = lease.Release(ctx)
		}
		return nil, sig
	}
	if err != nil {
		return nil, err
	}
	if c.lock.remark != nil {
		if text := c.lock.remark(); text != "" {
			say.notice("remark", []slog.Attr{slog.String("message", text)}, "%s", text)
		}
	}
	waited := time.Since(start)
	attrs := []slog.Attr{slog.Uint64("token", lease.Token())}
	if c.Verbose {
		attrs = append(attrs, slog.String("holder", lease.HolderID()))
	}
	say.detail("acquired", append(attrs, slog.Duration("waited", waited)), "acquired %q after %s, token %d, holder %s", c.Resource, short(waited), lease.Token(), lease.HolderID())
	return lease, nil
}

// firstTry reads the state of the resource and then tries once without queueing, so that an
// unavailable store, a user without rights, a nested run and a busy resource are reported at once.
func (c *guarded) firstTry(ctx context.Context, s *session, say *reporter) (*holdfast.Lease, error) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wait := !c.Nonblock && (c.Wait == nil || *c.Wait > 0)
	// The read leaves nothing in the store: if that is unavailable, nothing needs to
	// be released there before the exit.
	lease, err := (*holdfast.Lease)(nil), c.findResource(ask)
	if err == nil {
		err = c.checkHolders(ask, s)
	}
	if err == nil && c.lock.try != nil {
		lease, err = c.lock.try(ask)
	}
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if ok && c.noWaiters {
		held.Waiters = unknownWaiters
	}
	switch {
	case err == nil:
		return lease, nil
	case held != nil && wait:
		c.shown = held.HolderID
		say.notice("waiting", c.heldAttrs(held), "waiting: %s", c.heldText(held))
		return nil, nil
	case held != nil:
		return nil, c.conflict(held)
	case unreachable(err) && wait && c.Wait != nil && ctx.Err() == nil:
		say.notice("store-away", []slog.Attr{slog.String("message", bare(err))},
			"%s; trying for %s", s.explain(err).text, short(time.Duration(*c.Wait)))
		return nil, nil
	}
	return nil, err
}

// findResource reads the name of the resource from the store, if the command line does not have it.
func (c *guarded) findResource(ctx context.Context) error {
	if c.lock.resource == nil {
		return nil
	}
	name, err := c.lock.resource(ctx)
	if err == nil {
		c.Resource = text(name)
	}
	return err
}

// skipFirstTry is the first try of a command that has run before: it goes on to the wait, which
// retries while the store is unavailable.
func (c *guarded) skipFirstTry(context.Context, *session, *reporter) (*holdfast.Lease, error) {
	c.shown = ""
	return nil, nil
}

// checkHolders reads the state of the resource, and refuses to wait for a lease under which
// this process runs. If the lock has no try, it also returns the present holder as an error.
func (c *guarded) checkHolders(ctx context.Context, s *session) error {
	for _, name := range c.resources() {
		snap, err := s.Snapshot(ctx, name)
		if err != nil {
			return err
		}
		c.noWaiters = snap.NoWaiters
		switch nestingOf(snap, c.weight, c.shared) {
		case waitsForItself:
			return fail(exitUsage, "this command already runs under the lease of %q and would wait for itself: "+
				"remove the inner holdfast, or use another resource", name)
		case mayWaitForItself:
			return fail(exitUsage, "this command already runs under a --shared lease of %q, and would wait for ever if a command without --shared "+
				"waited for that one: remove the inner holdfast, or use another resource", name)
		}
		if c.lock.try == nil && inUse(snap) {
			return heldBy(snap)
		}
	}
	return nil
}

// firstInUse returns the state of the first of the resources that is in use, or else of the last.
func (c *guarded) firstInUse(ctx context.Context, s *session) (snap holdfast.Snapshot, err error) {
	for _, name := range c.resources() {
		if snap, err = s.Snapshot(ctx, name); err != nil || inUse(snap) {
			break
		}
	}
	return snap, err
}

// inUse reports whether the resource has holders or waiters.
func inUse(snap holdfast.Snapshot) bool { return len(snap.Holders)+len(snap.Waiters) > 0 }

// waitForLease queues until the lease is granted, -w runs out (counted from start) or a
// signal comes.
func (c *guarded) waitForLease(ctx context.Context, s *session, say *reporter, start time.Time) (*holdfast.Lease, error) {
	if c.Wait != nil {
		var cancel context.CancelFunc
		end := start.Add(time.Duration(*c.Wait))
		if least := time.Now().Add(leastWait); c.lock.try == nil && end.Before(least) {
			end = least // the first try was only a read, so the request still needs time
		}
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	stop := c.reportWait(ctx, s, say, start)
	lease, err := c.lock.wait(ctx)
	stop()
	switch {
	case err == nil:
		return lease, nil
	case c.Wait != nil && errors.Is(ctx.Err(), context.DeadlineExceeded): // -w ran out; err may name other time limits
	case errors.Is(err, holdfast.ErrNotAcquired) && ctx.Err() == nil: // an operator broke the wait
		return nil, fail(c.ConflictExitCode, "%s", bare(err))
	default:
		return nil, err
	}
	// It was held until the end, or the store was unavailable or slow: report which.
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	snap, failed := c.firstInUse(ask, s)
	switch away := errors.Is(err, holdfast.ErrUnavailable) || errors.Is(failed, holdfast.ErrUnavailable); {
	case failed == nil && (!away || len(snap.Holders) > 0):
		return nil, c.conflict(heldBy(snap))
	case away:
		cause := failed
		if !errors.Is(cause, holdfast.ErrUnavailable) {
			cause = err
		}
		return nil, fail(exitUnavailable, "not acquired in %s: %s", time.Duration(*c.Wait), s.explain(cause).text)
	}
	return nil, failed
}

// unknownWaiters is HeldError.Waiters if the store does not show waiters, as a quorum does not.
const unknownWaiters = -1

// heldBy returns the first holder of a snapshot as an error.
func heldBy(snap holdfast.Snapshot) *holdfast.HeldError {
	held := &holdfast.HeldError{Resource: snap.Resource, Waiters: len(snap.Waiters)}
	if snap.NoWaiters {
		held.Waiters = unknownWaiters
	}
	if len(snap.Holders) > 0 {
		h := snap.Holders[0]
		held.HolderID, held.Name, held.Host, held.PID = h.ID, h.Name, h.Host, h.PID
		held.Reason, held.Since, held.TTL = h.Reason, h.Since, h.TTL
	}
	return held
}

// unreachable reports whether the store did not respond.
func unreachable(err error) bool {
	return errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// signalOf returns the signal that ended ctx, or nil.
func signalOf(ctx context.Context) error {
	if sig, ok := errors.AsType[*signalled](context.Cause(ctx)); ok {
		return sig
	}
	return nil
}

// conflict returns the error of a run that did not get the lease, with the present holder.
func (c *guarded) conflict(held *holdfast.HeldError) error {
	hint := fmt.Sprintf("; look with \"holdfast show %s\"", shellWord(text(held.Resource)))
	if c.Wait == nil {
		hint = "; wait for it with -w D, or" + strings.TrimPrefix(hint, ";")
	}
	return &busyError{held: held, exitError: exitError{code: c.ConflictExitCode, text: "not acquired: " + c.heldText(held) + hint}}
}

// busyError is an exitError with the present holder, for --json.
type busyError struct {
	exitError
	held *holdfast.HeldError
}

// Unwrap lets errors.As find the exit code.
func (e *busyError) Unwrap() error { return &e.exitError }

// refused reports why the lease was not acquired, as the event busy with the holder if there is one. It returns an error
// that only has the exit code.
func (c *guarded) refused(say *reporter, event string, s *session, err error) error {
	if busy, ok := errors.AsType[*busyError](err); ok {
		return say.failure("busy", &busy.exitError, c.heldAttrs(busy.held)...)
	}
	return say.failure(event, s.explain(err))
}

// heldText is the text of a holder; with -v it has the ID.
func (c *guarded) heldText(h *holdfast.HeldError) string {
	text := heldText(h)
	if c.Verbose && h.HolderID != "" {
		text += ", holder ID " + cell(h.HolderID)
	}
	return text
}

// heldAttrs are the same for --json.
func (c *guarded) heldAttrs(h *holdfast.HeldError) []slog.Attr {
	attrs := heldAttrs(h)
	if c.Verbose && h.HolderID != "" {
		attrs = append(attrs, slog.String("holder", h.HolderID))
	}
	return attrs
}

// heldText describes the holder of the resource, since when and why it holds it, and the number
// of waiters. It has no holder ID, with which the lease can be broken (decision 0143). Texts of other
// processes are escaped.
func heldText(h *holdfast.HeldError) string {
	waiting := "waiters unknown"
	if h.Waiters != unknownWaiters {
		waiting = fmt.Sprintf("%d waiting", h.Waiters)
	}
	if h.HolderID == "" {
		return fmt.Sprintf("%q has no holder, %s", h.Resource, waiting)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q is held by %s on host %s, pid %d", h.Resource, orNone(h.Name), orNone(h.Host), h.PID)
	if !h.Since.IsZero() {
		fmt.Fprintf(&b, ", since %s", h.Since.Local().Format(time.DateTime))
	}
	if h.Reason != "" {
		fmt.Fprintf(&b, ", reason %q", h.Reason)
	}
	fmt.Fprintf(&b, ", TTL left %s, %s", short(h.TTL), waiting)
	return b.String()
}

// heldAttrs are the same for --json.
func heldAttrs(h *holdfast.HeldError) []slog.Attr {
	waiters := slog.Int("waiters", h.Waiters)
	if h.Waiters == unknownWaiters {
		waiters = slog.Any("waiters", nil)
	}
	return []slog.Attr{
		slog.String("name", h.Name), slog.String("host", h.Host), slog.Int("pid", h.PID),
		slog.Time("since", h.Since), slog.String("reason", h.Reason), slog.Duration("ttl_left", h.TTL), waiters,
	}
}

// orNone returns a text for an empty field, and escapes others as cell does.
func orNone(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return cell(s)
}
