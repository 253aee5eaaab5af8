package holdfast

import (
	"context"
	"reflect"
	"time"
)

// A Hook observes a client. It is any value with one or more of the methods of
// the interfaces below; new interfaces may be added without breaking a hook.
// Hooks are called in the goroutine where the event happens and must return
// quickly. They may use leases but must not call [Client.Close], which waits
// for them.
//
// The client does not recover a panic of a hook. AcquireStart, AcquireEnd and
// Release are called in the caller's goroutine, so the panic reaches the
// caller. If AcquireEnd panics, the lease is released first, since the caller
// does not get it; if Release panics, the lease has been released. Renew and
// Lost, and Release for leases that a Multi did not keep, may be called in a
// goroutine of the client, where a panic ends the program unless the hook
// recovers it. In any goroutine, no lease, turn or renewal depends on whether a
// hook returns. The same holds for runtime.Goexit.
type Hook any

// An AcquireStartHook is called when an attempt to acquire begins.
type AcquireStartHook interface {
	AcquireStart(ctx context.Context, e AcquireStartEvent)
}

// An AcquireStartEvent is the beginning of a Lock or TryLock.
type AcquireStartEvent struct {
	Resource string
	Kind     string
	Weight   int
}

// An AcquireEndHook is called when an attempt to acquire has ended.
type AcquireEndHook interface {
	AcquireEnd(ctx context.Context, e AcquireEndEvent)
}

// An AcquireEndEvent is the end of a Lock or TryLock.
type AcquireEndEvent struct {
	Resource string
	Kind     string
	Weight   int
	Token    uint64
	Waited   time.Duration
	Source   Source // 0 if Err is not nil
	Err      error
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
	// SourceProcess: another caller of this process handed off its lease.
	SourceProcess
	// SourceContext: re-entry under the caller's own lease.
	SourceContext
	// SourceFallback: the store was unavailable; see WithFallback.
	SourceFallback
)

func (s Source) String() string {
	switch s {
	case SourceStore:
		return "store"
	case SourcePush:
		return "push"
	case SourcePoll:
		return "poll"
	case SourceProcess:
		return "process"
	case SourceContext:
		return "context"
	case SourceFallback:
		return "fallback"
	}
	return "none"
}

// A RenewHook is called after each renewal of a lease, successful or not.
type RenewHook interface{ Renew(e RenewEvent) }

// A RenewEvent is one renewal of one lease. If Err is not nil, the renewal is
// retried for the time Left, and then the lease is lost.
type RenewEvent struct {
	Resource string
	Token    uint64
	Left     time.Duration // until the trust window closes
	Err      error
}

// A LostHook is called when a lease is lost.
type LostHook interface{ Lost(e *LostError) }

// A ReleaseHook is called when a lease has been released or handed off.
type ReleaseHook interface{ Release(e ReleaseEvent) }

// A ReleaseEvent is the end of a lease by its holder.
type ReleaseEvent struct {
	Resource string
	Token    uint64
	Held     time.Duration
	Err      error // the store did not confirm the release in time
}

// hooks holds the hooks by event.
type hooks struct {
	acquireStart []AcquireStartHook
	acquireEnd   []AcquireEndHook
	renew        []RenewHook
	lost         []LostHook
	release      []ReleaseHook
}

// acquireEnded reports the end of an acquire. If a hook panics, the lease is released,
// since the caller does not get it.
func (h *hooks) acquireEnded(ctx context.Context, l *Lease, e AcquireEndEvent) {
	returned := false
	defer func() {
		if l != nil && !returned {
			_ = l.Release(ctx) // retried in the background if it is not confirmed
		}
	}()
	if l != nil {
		e.Token = l.token
	}
	for _, hook := range h.acquireEnd {
		hook.AcquireEnd(ctx, e)
	}
	returned = true
}

func sortHooks(all []Hook) (h hooks, err error) {
	for _, hook := range all {
		known := false
		if x, ok := hook.(AcquireStartHook); ok {
			h.acquireStart, known = append(h.acquireStart, x), true
		}
		if x, ok := hook.(AcquireEndHook); ok {
			h.acquireEnd, known = append(h.acquireEnd, x), true
		}
		if x, ok := hook.(RenewHook); ok {
			h.renew, known = append(h.renew, x), true
		}
		if x, ok := hook.(LostHook); ok {
			h.lost, known = append(h.lost, x), true
		}
		if x, ok := hook.(ReleaseHook); ok {
			h.release, known = append(h.release, x), true
		}
		if err := checkHook(hook, known); err != nil {
			return h, err
		}
	}
	return h, nil
}

// checkHook returns an error if a hook has no hook method, or has one with
// another signature or with a pointer receiver that the value lacks: it would
// never be called.
func checkHook(hook Hook, known bool) error {
	for _, want := range []reflect.Type{
		reflect.TypeFor[AcquireStartHook](), reflect.TypeFor[AcquireEndHook](), reflect.TypeFor[RenewHook](),
		reflect.TypeFor[LostHook](), reflect.TypeFor[ReleaseHook](),
	} {
		has := reflect.TypeOf(hook)
		if hook == nil || has.Implements(want) {
			continue
		}
		method := want.Method(0)
		if got := reflect.ValueOf(hook).MethodByName(method.Name); got.IsValid() {
			return optionError("hook of type %T: the method %s is a %v, want a %v", hook, method.Name, got.Type(), method.Type)
		}
		if has.Kind() != reflect.Interface && reflect.PointerTo(has).Implements(want) {
			return optionError("hook of type %T: the method %s has a pointer receiver: pass a pointer", hook, method.Name)
		}
	}
	if !known {
		return optionError("hook of type %T has none of the hook methods", hook)
	}
	return nil
}
