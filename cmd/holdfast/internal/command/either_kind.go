package command

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// mostKinds is the maximum number of attempts while the kind in use changes.
const mostKinds = 10

// eitherKind is a lock that excludes both mutexes and readers' and writers' locks of the
// resource: it takes the kind that is in use, and so joins the existing queue.
type eitherKind struct {
	kind      engine.Kind // kind to request; at first the kind for a resource that is not in use
	mutex, rw lock
	inUse     func(ctx context.Context) (engine.Kind, error) // empty: not in use
}

// lock returns it as a lock.
func (e *eitherKind) lock() lock {
	return lock{
		wait: func(ctx context.Context) (*holdfast.Lease, error) {
			return e.acquire(ctx, e.kindAtLast, func(l lock) (*holdfast.Lease, error) { return l.wait(ctx) })
		},
		try: func(ctx context.Context) (*holdfast.Lease, error) {
			return e.acquire(ctx, e.inUse, func(l lock) (*holdfast.Lease, error) { return l.try(ctx) })
		},
	}
}

// kindAtLast reads the kind in use, again and again while the store is unavailable, as the wait
// itself does.
func (e *eitherKind) kindAtLast(ctx context.Context) (engine.Kind, error) {
	for {
		ask, cancel := context.WithTimeout(ctx, requestTimeout)
		kind, err := e.inUse(ask)
		cancel()
		if err == nil || !unreachable(err) || ctx.Err() != nil {
			return kind, err
		}
		select {
		case <-time.After(lookEvery + rand.N(lookEvery)):
		case <-ctx.Done():
			return "", err
		}
	}
}

// acquire requests the lease, and again if the resource is in use as the other kind. The kind
// cannot change while the caller holds or waits, only before.
func (e *eitherKind) acquire(ctx context.Context, inUse func(context.Context) (engine.Kind, error), ask func(lock) (*holdfast.Lease, error)) (*holdfast.Lease, error) {
	for n := 1; ; n++ {
		l := e.mutex
		if e.kind == engine.KindRW {
			l = e.rw
		}
		lease, err := ask(l)
		if !errors.Is(err, holdfast.ErrMismatch) || n == mostKinds {
			return lease, err
		}
		kind, failed := inUse(ctx)
		switch {
		case failed != nil:
			return nil, failed
		case kind == engine.KindMutex || kind == engine.KindRW:
			e.kind = kind
		case kind != "":
			return nil, err
		}
		// On a quorum, two concurrent requests may each find the kind of the other.
		select {
		case <-time.After(rand.N(time.Duration(n*n) * time.Millisecond)):
		case <-ctx.Done(): // the next attempt returns its cause
		}
	}
}
