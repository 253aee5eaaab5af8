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
	AcquireStart(ctx context.Context, e AcquireStart)
}

// AcquireStart is the beginning of a Lock or TryLock.
type AcquireStart struct {
	Resource string
	Kind     string
	Weight   int
}

// AcquireEndHook hears how an attempt ended.
type AcquireEndHook interface {
	AcquireEnd(ctx context.Context, e AcquireEnd)
}

// AcquireEnd is the end of a Lock or TryLock.
type AcquireEnd struct {
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
	// FromStore: the store granted the first request.
	FromStore Source = iota + 1
	// FromPush: a wake-up brought the grant.
	FromPush
	// FromPoll: a waiter that asked again found it granted.
	FromPoll
	// FromProcess: another caller of this process handed its lease on.
	FromProcess
	// FromContext: re-entry under the caller's own lease.
	FromContext
	// FromFallback: the store was away; see WithFallback.
	FromFallback
)

func (s Source) String() string {
	switch s {
	case FromStore:
		return "store"
	case FromPush:
		return "push"
	case FromPoll:
		return "poll"
	case FromProcess:
		return "process"
	case FromContext:
		return "context"
	case FromFallback:
		return "fallback"
	}
	return "none"
}

// RenewHook hears of every renewal.
type RenewHook interface{ Renew(e Renew) }

// Renew is one renewal of one lease. With an error the lease is in jeopardy: the
// renewal is tried again for as long as Left says, then the lease is lost.
type Renew struct {
	Resource string
	Token    uint64
	Left     time.Duration // of the trust window
	Err      error
}

// LostHook hears that a lease was lost.
type LostHook interface{ Lost(e *LostError) }

// ReleaseHook hears that a lease was given back or passed on.
type ReleaseHook interface{ Release(e Release) }

// Release is the end of a lease by its holder.
type Release struct {
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
