package holdfast

import (
	"context"
	"reflect"
	"time"
)

// Hook watches a client. It is any value that has one or more of the methods of
// the interfaces below; new interfaces may be added without breaking a hook.
// Hooks are called in the goroutine where the event happens and must be quick;
// they may use leases, but must not call Client.Close, which waits for them.
//
// A panic of a hook is not recovered. AcquireStart, AcquireEnd and Release are
// called in the goroutine of the caller, who gets the panic; with AcquireEnd the
// lease is released first, since the caller does not get it, and with Release it
// has been. Renew and Lost, and the Release of leases that a Multi did not keep,
// may be called in a goroutine of the client, where a panic ends the program, as
// in any goroutine: recover in the hook what must not. Whatever goroutine it is, no
// lease, turn or renewal depends on a hook's return; runtime.Goexit is treated alike.
type Hook any

// AcquireStartHook hears that an attempt begins.
type AcquireStartHook interface {
	AcquireStart(ctx context.Context, e AcquireStartEvent)
}

// AcquireStartEvent is the beginning of a Lock or TryLock.
type AcquireStartEvent struct {
	Resource string
	Kind     string
	Weight   int
}

// AcquireEndHook hears how an attempt ended.
type AcquireEndHook interface {
	AcquireEnd(ctx context.Context, e AcquireEndEvent)
}

// AcquireEndEvent is the end of a Lock or TryLock.
type AcquireEndEvent struct {
	Resource string
	Kind     string
	Weight   int
	Token    uint64
	Waited   time.Duration
	Source   Source // how the grant came; 0 with an error
	Err      error
}

// Source says how a grant reached its holder.
type Source uint8

// The sources of a grant.
const (
	// SourceStore: the store granted the first request.
	SourceStore Source = iota + 1
	// SourcePush: a wake-up brought the grant.
	SourcePush
	// SourcePoll: a waiter that asked again found it granted.
	SourcePoll
	// SourceProcess: another caller of this process handed its lease on.
	SourceProcess
	// SourceContext: re-entry under the caller's own lease.
	SourceContext
	// SourceFallback: the store was away; see WithFallback.
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

// RenewHook hears of every renewal.
type RenewHook interface{ Renew(e RenewEvent) }

// RenewEvent is one renewal of one lease. With an error the lease is in jeopardy: the
// renewal is tried again for as long as Left says, then the lease is lost.
type RenewEvent struct {
	Resource string
	Token    uint64
	Left     time.Duration // of the trust window
	Err      error
}

// LostHook hears that a lease was lost.
type LostHook interface{ Lost(e *LostError) }

// ReleaseHook hears that a lease was given back or passed on.
type ReleaseHook interface{ Release(e ReleaseEvent) }

// ReleaseEvent is the end of a lease by its holder.
type ReleaseEvent struct {
	Resource string
	Token    uint64
	Held     time.Duration
	Err      error // the store did not confirm it in time
}

// hooks are sorted by what they listen to, once.
type hooks struct {
	acquireStart []AcquireStartHook
	acquireEnd   []AcquireEndHook
	renew        []RenewHook
	lost         []LostHook
	release      []ReleaseHook
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

// checkHook returns an error if a hook has no hook method, or a method of that name with
// another signature, or one that only its pointer has: it would never be called.
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
			return optionError("hook of type %T: the method %s needs a pointer: pass &hook", hook, method.Name)
		}
	}
	if !known {
		return optionError("hook of type %T has none of the hook methods", hook)
	}
	return nil
}
