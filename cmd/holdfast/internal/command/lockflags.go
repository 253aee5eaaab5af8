package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// lockFlags are the flags of every verb that takes the lease of a lock: which
// primitive, and how long to wait.
type lockFlags struct {
	Nonblock  bool  `short:"n" xor:"wait" help:"Do not wait: exit 75 if the resource is held."`
	Wait      *span `short:"w" xor:"wait" placeholder:"D" help:"Wait at most D, such as 30s, then exit 75, or 69 if the store is unavailable; 0 tries once. Default: no limit, but exit 69 at once if the store is unavailable at the start."`
	Slots     *int  `xor:"kind" placeholder:"N" help:"Up to N at once: acquire one of N slots of a semaphore. All callers must use the same N. Default: one at a time."`
	Weight    *int  `placeholder:"N" help:"With --slots: take N of them. Default: 1."`
	Shared    bool  `xor:"kind" help:"Run at the same time as other --shared commands, but not as one without it: acquire the reader's lease of an RWMutex, or, while the resource is in use as a mutex, the mutex."`
	Exclusive bool  `xor:"kind" help:"Run alone, as without it, but a resource that is not in use becomes an RWMutex instead of a mutex: for services that use an RWMutex."`
	Reason    text  `placeholder:"TEXT" help:"The purpose, which operators and waiters see. Default: none."`
}

// checkSlots checks what the flag's type cannot.
func (f *lockFlags) checkSlots() error {
	if f.Slots != nil && (*f.Slots < 1 || *f.Slots > holdfast.MaxCapacity) {
		return fmt.Errorf("--slots needs a number from 1 to %d", holdfast.MaxCapacity)
	}
	if f.Weight != nil && (f.Slots == nil || *f.Weight < 1 || *f.Weight > *f.Slots) {
		return errors.New("--weight goes with --slots N, and needs a number from 1 to N")
	}
	return nil
}

// weight returns the number of slots to take.
func (f *lockFlags) weight() int {
	if f.Weight != nil {
		return *f.Weight
	}
	return 1
}

// on returns the primitive that the flags name; for several names, a Multi.
func (f *lockFlags) on(s *session, names []string, ttl time.Duration) lock {
	opts := []holdfast.LockOption{holdfast.WithTTL(ttl), holdfast.WithReason(string(f.Reason)), holdfast.WithoutTenure()}
	name := names[0]
	switch {
	case len(names) > 1:
		all := s.Multi(names, opts...)
		return lock{wait: all.Lock, try: all.TryLock}
	case f.Slots != nil:
		pool := s.Semaphore(name, *f.Slots, opts...)
		return lock{
			wait: func(ctx context.Context) (*holdfast.Lease, error) { return pool.Acquire(ctx, f.weight()) },
			try:  func(ctx context.Context) (*holdfast.Lease, error) { return pool.TryAcquire(ctx, f.weight()) },
		}
	}
	m, rw := s.Mutex(name, opts...), s.RWMutex(name, opts...)
	either := &eitherKind{
		kind: engine.KindRW, mutex: lock{wait: m.Lock, try: m.TryLock}, rw: lock{wait: rw.Lock, try: rw.TryLock},
		inUse: func(ctx context.Context) (engine.Kind, error) { return kindInUse(ctx, s, name) },
	}
	switch {
	case f.Shared:
		either.rw = lock{wait: rw.RLock, try: rw.TryRLock}
		l := either.lock()
		l.remark = func() string {
			if either.kind != engine.KindMutex {
				return ""
			}
			return fmt.Sprintf("%q is in use as a mutex: it is held exclusively in spite of --shared", name)
		}
		return l
	case !f.Exclusive:
		either.kind = engine.KindMutex
	}
	return either.lock()
}

// kindInUse returns the kind that the resource is in use as, or "" if it is not in use.
func kindInUse(ctx context.Context, s *session, name string) (engine.Kind, error) {
	snap, err := s.Snapshot(ctx, name)
	if err != nil || !inUse(snap) && snap.Marked == 0 {
		return "", err
	}
	return engine.Kind(snap.Kind), nil
}
