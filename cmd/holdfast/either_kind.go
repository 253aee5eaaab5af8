package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// mostKinds is how often a lease is asked for while the kind in use changes.
const mostKinds = 10

// eitherKind is a lock that excludes both those who use the resource as a mutex and
// those who use it as a readers' and writers' lock, by joining the queue that is there.
type eitherKind struct {
	kind      engine.Kind // to ask for: at first that of a resource that is not in use
	mutex, rw lock
	inUse     func(ctx context.Context) (engine.Kind, error) // empty: not in use
}

// lock is the lock as others are.
func (e *eitherKind) lock() lock {
	return lock{
		wait: func(ctx context.Context) (*holdfast.Lease, error) {
			return e.acquire(ctx, func(l lock) (*holdfast.Lease, error) { return l.wait(ctx) })
		},
		try: func(ctx context.Context) (*holdfast.Lease, error) {
			return e.acquire(ctx, func(l lock) (*holdfast.Lease, error) { return l.try(ctx) })
		},
	}
}

// acquire asks for the lease, and again if the resource is in use as the other kind. Only a
// newcomer can find another kind, since the resource keeps it while anybody holds or waits.
func (e *eitherKind) acquire(ctx context.Context, ask func(lock) (*holdfast.Lease, error)) (*holdfast.Lease, error) {
	for n := 1; ; n++ {
		l := e.mutex
		if e.kind == engine.KindRW {
			l = e.rw
		}
		lease, err := ask(l)
		if !errors.Is(err, holdfast.ErrMismatch) || n == mostKinds {
			return lease, err
		}
		kind, failed := e.inUse(ctx)
		switch {
		case failed != nil:
			return nil, failed
		case kind == engine.KindMutex || kind == engine.KindRW:
			e.kind = kind
		case kind != "":
			return nil, err
		}
		// On a quorum two that come at the same time may each find the other's kind.
		select {
		case <-time.After(rand.N(time.Duration(n*n) * time.Millisecond)):
		case <-ctx.Done(): // the next attempt says so
		}
	}
}
