package holdfast

import (
	"context"
	"errors"
	"reflect"
	"time"
)

// A Hook observes a client. It is any value with one or more of the methods of
// the interfaces below. A later version may add interfaces; New then fails if a
// hook has a method of such a name with another signature.
// Hooks are called in the goroutine where the event happens and must return
// quickly. They may use leases but must not call [Client.Close], which waits
// for them.
//
// The client does not recover a panic of a hook. AcquireStart, Trace,
// AcquireEnd and Release are called in the caller's goroutine, so the panic
// reaches the caller. If AcquireEnd panics, the lease is released first, since the caller
// does not get it; if Release panics, the lease has been released. Wait and
// Withdraw are called there too, and if they panic the attempt is withdrawn.
// All others, and Release for leases that a Multi did not keep, may be called in
// a goroutine of the client, where a panic ends the program unless the hook
// recovers it. In any goroutine, no lease, turn or renewal depends on whether a
// hook returns. The same holds for runtime.Goexit.
type Hook any

// An AcquireStartHook is called when an attempt to acquire, or to adopt, begins.
type AcquireStartHook interface {
	AcquireStart(ctx context.Context, e AcquireStartEvent)
}

// An AcquireStartEvent is the beginning of a Lock, TryLock or Adopt.
type AcquireStartEvent struct {
	Resource string
	Kind     string
	Weight   int
}

// An AcquireEndHook is called when an attempt to acquire has ended.
type AcquireEndHook interface {
	AcquireEnd(ctx context.Context, e AcquireEndEvent)
}

// An AcquireEndEvent is the end of a Lock, TryLock or Adopt.
type AcquireEndEvent struct {
	Resource string
	Kind     string
	Weight   int
	Token    uint64
	Waited   time.Duration
	Source   Source // 0 if Err is not nil
	Outcome  AcquireOutcome
	// HolderSpan is the span of the holder that was in the way, if both clients
	// have a TraceHook and it is not the span of the acquire itself. It is known
	// for an acquire that does not wait and was refused, and for one with a span
	// that has waited for more than a second for a capacity of 1.
	HolderSpan SpanRef
	Err        error
}

// An AcquireOutcome is how an acquire ended, in brief: a few values, for
// metrics.
type AcquireOutcome uint8

// The outcomes of an acquire.
const (
	// AcquireGranted: there is a lease.
	AcquireGranted AcquireOutcome = iota + 1
	// AcquireBusy: others hold the resource or wait for it, and the call does
	// not wait.
	AcquireBusy
	// AcquireMarked: the resource is marked as done.
	AcquireMarked
	// AcquireBroken: an operator broke the wait.
	AcquireBroken
	// AcquireCanceled: ctx ended first.
	AcquireCanceled
	// AcquireFailed: any other error.
	AcquireFailed
)

func (o AcquireOutcome) String() string {
	return nameOf(o, []string{
		"none", AcquireGranted: "granted", AcquireBusy: "busy", AcquireMarked: "marked", AcquireBroken: "broken",
		AcquireCanceled: "canceled", AcquireFailed: "error",
	})
}

// nameOf returns the name of a value of an enumeration, names[0] if it has none.
func nameOf[E ~uint8](e E, names []string) string {
	if int(e) >= len(names) {
		e = 0
	}
	return names[e]
}

// outcomeOf returns the outcome of an acquire with this error.
func outcomeOf(ctx context.Context, err error) AcquireOutcome {
	_, held := errors.AsType[*HeldError](err)
	switch {
	case err == nil:
		return AcquireGranted
	case endedBy(err, errMarked):
		return AcquireMarked
	case endedByBreak(err):
		return AcquireBroken
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return AcquireCanceled
	case held:
		return AcquireBusy
	}
	return AcquireFailed
}

// A Source is the way a grant reached its holder.
type Source uint8

// The sources of a grant.
const (
	// SourceStore: the store granted the first request.
	SourceStore Source = iota + 1
	// SourcePush: a wake-up carried the grant.
	SourcePush
	// SourcePoll: a waiter's poll found that it had been granted.
	SourcePoll
	// SourceProcess: another caller of this process handed off its lease, or
	// shares it.
	SourceProcess
	// SourceContext: re-entry under the caller's own lease.
	SourceContext
	// SourceFallback: the store was unavailable; see WithFallback.
	SourceFallback
	// SourceTicket: the lease was adopted; see Client.Adopt.
	SourceTicket
)

func (s Source) String() string {
	return nameOf(s, []string{
		"none", SourceStore: "store", SourcePush: "push", SourcePoll: "poll", SourceProcess: "process",
		SourceContext: "context", SourceFallback: "fallback", SourceTicket: "ticket",
	})
}

// A RenewHook is called after each renewal of a lease, successful or not.
type RenewHook interface{ Renew(e RenewEvent) }

// A RenewEvent is one renewal of one lease. If Err is not nil, the renewal is
// retried for the time Left, and then the lease is lost.
type RenewEvent struct {
	Resource string
	Token    uint64
	Took     time.Duration // of the call to the store, which may have renewed others, too
	Left     time.Duration // until the trust window closes
	Err      error
}

// A LostHook is called when a lease is lost.
type LostHook interface{ Lost(e *LostError) }

// A ReleaseHook is called when a lease has been released, handed off or
// detached, also by Close. Of re-entrant leases the last one counts, and of those
// of a reader the first one, if readers of the process share a lease.
type ReleaseHook interface{ Release(e ReleaseEvent) }

// A ReleaseEvent is the end of a lease by its holder.
type ReleaseEvent struct {
	Resource string
	Kind     string
	Token    uint64
	Held     time.Duration
	HandOff  HandOff
	Err      error // the store did not confirm the release in time
}

// A HandOff reports what happens to a resource when its holder ends the lease.
type HandOff uint8

// The values of a HandOff.
const (
	// HandOffStore: the store grants the resource to the next waiter.
	HandOffStore HandOff = iota + 1
	// HandOffProcess: another caller of this client has the grant now, or still
	// shares it.
	HandOffProcess
	// HandOffYield: as HandOffStore, and another caller of this client joined
	// the store's queue in the same step.
	HandOffYield
	// HandOffTicket: the lease was detached; see Lease.Detach.
	HandOffTicket
	// HandOffFallback: the lease was granted without the store.
	HandOffFallback
	// HandOffClose: as HandOffStore, by Close while the lease was held. Work of
	// a Job or a Once is not marked as done.
	HandOffClose
	// HandOffLinger: the client keeps the grant for its next caller; see
	// WithLinger.
	HandOffLinger
)

func (h HandOff) String() string {
	return nameOf(h, []string{
		"none", HandOffStore: "store", HandOffProcess: "process", HandOffYield: "yield", HandOffTicket: "ticket",
		HandOffFallback: "fallback", HandOffClose: "close", HandOffLinger: "linger",
	})
}

// hooks holds the hooks by event.
type hooks struct {
	acquireStart  []AcquireStartHook
	acquireEnd    []AcquireEndHook
	renew         []RenewHook
	lost          []LostHook
	release       []ReleaseHook
	wait          []WaitHook
	withdraw      []WithdrawHook
	jeopardyStart []JeopardyStartHook
	jeopardyEnd   []JeopardyEndHook
	broken        []BreakHook
	recalled      []RecallHook
	fallbackStart []FallbackStartHook
	fallbackEnd   []FallbackEndHook
	cleanupFailed []CleanupFailedHook
	trace         []TraceHook
}

// acquireEnded reports the end of an acquire to the log and to hooks. If the logger or a hook
// panics, the lease is released, since the caller does not get it.
func (c *Client) acquireEnded(ctx context.Context, l *Lease, e AcquireEndEvent) {
	returned := false
	defer func() {
		if l != nil && !returned {
			_ = l.Release(ctx) // retried in the background if it is not confirmed
		}
	}()
	if l != nil {
		e.Token = l.token
	}
	c.leaseLog.acquired(l, e)
	if len(c.hooks.acquireEnd) > 0 {
		e.Outcome = outcomeOf(ctx, e.Err)
	}
	for _, hook := range c.hooks.acquireEnd {
		hook.AcquireEnd(ctx, e)
	}
	returned = true
}

// reportsReleases reports whether anything uses ReleaseEvents.
func (lk *acquirer) reportsReleases() bool {
	return len(lk.c.hooks.release) > 0 || lk.c.recorder != nil || lk.c.leaseLog.wants(lk.kind)
}

// released reports the end of a lease by its holder. l is nil, unless callers share the grant.
func (lk *acquirer) released(holder string, e ReleaseEvent, l *Lease) {
	lk.c.recorder.released(e, l)
	lk.c.leaseLog.released(holder, e)
	for _, hook := range lk.c.hooks.release {
		hook.Release(e)
	}
}

// lost reports a loss. l is nil, unless callers share the grant.
func (lk *acquirer) lost(why *LostError, held time.Duration, l *Lease) {
	lk.c.recorder.lost(lk, why, held, l)
	lk.c.leaseLog.lost(lk.kind, why, held)
	for _, hook := range lk.c.hooks.lost {
		hook.Lost(why)
	}
}

func sortHooks(all []Hook) (h hooks, err error) {
	for _, hook := range all {
		if err := h.add(hook); err != nil {
			return h, err
		}
	}
	return h, nil
}

// add adds a hook to the events of which it has the method.
func (h *hooks) add(hook Hook) error {
	known, err := false, error(nil)
	for _, add := range []func() (bool, error){
		adding(&h.acquireStart, hook), adding(&h.acquireEnd, hook), adding(&h.renew, hook), adding(&h.lost, hook),
		adding(&h.release, hook), adding(&h.wait, hook), adding(&h.withdraw, hook), adding(&h.jeopardyStart, hook),
		adding(&h.jeopardyEnd, hook), adding(&h.broken, hook), adding(&h.recalled, hook), adding(&h.fallbackStart, hook), adding(&h.fallbackEnd, hook),
		adding(&h.cleanupFailed, hook), adding(&h.trace, hook),
	} {
		added, failed := add()
		known = known || added
		if err == nil {
			err = failed
		}
	}
	if err == nil && !known {
		err = optionError("hook of type %T has none of the hook methods", hook)
	}
	return err
}

// adding returns a function that adds a hook to those of one event, if it has the method.
func adding[H any](to *[]H, hook Hook) func() (bool, error) {
	return func() (bool, error) {
		if h, ok := hook.(H); ok {
			*to = append(*to, h)
			return true, nil
		}
		return false, checkHook(hook, reflect.TypeFor[H]())
	}
}

// checkHook returns an error if a hook has the method of an event with another signature,
// or with a pointer receiver that the value lacks: it would never be called.
func checkHook(hook Hook, want reflect.Type) error {
	if hook == nil {
		return nil
	}
	has, method := reflect.TypeOf(hook), want.Method(0)
	if got := reflect.ValueOf(hook).MethodByName(method.Name); got.IsValid() {
		return optionError("hook of type %T: the method %s is a %v, want a %v", hook, method.Name, got.Type(), method.Type)
	}
	if has.Kind() != reflect.Interface && reflect.PointerTo(has).Implements(want) {
		return optionError("hook of type %T: the method %s has a pointer receiver: pass a pointer", hook, method.Name)
	}
	return nil
}
