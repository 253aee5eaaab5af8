package endure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ctxEnds has a wait that its ctx ends.
func ctxEnds(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, short()).Lock(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	waited, err := m.second.Mutex(name, short(), holdfast.WithoutTenure()).Lock(bounded)
	switch {
	case err == nil: // the lease of the first was lost
		err = waited.Release(ctx)
	case errors.Is(err, holdfast.ErrNotAcquired) && bounded.Err() != nil:
		err = nil
	}
	return errors.Join(err, l.Release(ctx))
}

// ctxEndsEarly has a ctx that ends in the middle of the acquire.
func ctxEndsEarly(ctx context.Context, m *member, name string) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := time.AfterFunc(time.Duration(len(name)%8)*200*time.Microsecond, cancel)
	defer stop.Stop()
	l, err := m.c.Mutex(name, short()).Lock(bounded)
	if err == nil {
		return l.Release(ctx)
	}
	if bounded.Err() != nil && ctx.Err() == nil && errors.Is(err, holdfast.ErrNotAcquired) {
		return nil
	}
	return err
}

// breakHolder breaks a lease, whose holder is notified and releases it.
func breakHolder(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, short()).Lock(ctx)
	if err != nil {
		return err
	}
	if err := m.second.Break(ctx, name, l.HolderID(), holdfast.BreakReason("to see it end")); err != nil {
		return errors.Join(ifNotHeld(err), l.Release(ctx))
	}
	select {
	case <-l.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w: the holder of %s, broken, was not notified in %v", errPromise, name, operationLimit)
	}
	if err := l.Release(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
		return err
	}
	return m.second.Mutex(name, short()).Do(ctx, func(context.Context) error { return nil })
}

// ifNotHeld returns errMissed for a break of what has ended.
func ifNotHeld(err error) error {
	if errors.Is(err, holdfast.ErrNotHeld) {
		return errMissed
	}
	return err
}

// breakWait breaks a wait in the queue of the store.
func breakWait(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, short()).Lock(ctx)
	if err != nil {
		return err
	}
	waited := make(chan error, 1)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		w, err := m.second.Mutex(name, short()).Lock(waiting)
		if err == nil {
			err = w.Release(ctx)
		}
		waited <- err
	}()
	err = m.breakFirstWait(ctx, name)
	if err != nil {
		cancel()
	}
	ended := <-waited
	switch {
	case err == nil && ended == nil: // it was granted: the lease was lost, or the break came too late
		err = errMissed
	case errors.Is(ended, holdfast.ErrNotAcquired) && !errors.Is(ended, holdfast.ErrUnavailable):
	default:
		err = errors.Join(err, ended)
	}
	return errors.Join(err, l.Release(ctx))
}

// breakFirstWait waits until the store has a wait for the resource, and breaks it.
func (m *member) breakFirstWait(ctx context.Context, name string) error {
	for range 20 {
		s, err := m.c.Snapshot(ctx, name)
		if err != nil {
			return err
		}
		for _, w := range s.Waiters {
			return ifNotHeld(m.c.Break(ctx, name, w.ID))
		}
		if s.NoWaiters {
			break // a quorum does not list them
		}
		pause(ctx, 10*time.Millisecond)
	}
	return errMissed
}

// expire leaves a lease to its TTL.
func expire(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, holdfast.WithTTL(time.Second), holdfast.WithoutRenewal()).Lock(ctx)
	if err != nil {
		return err
	}
	held := time.Now()
	select {
	case <-l.Done():
	case <-ctx.Done():
		waited := time.Since(held)
		if waited < operationLimit/2 { // the wait for the lease took the rest of the time
			return ctx.Err()
		}
		return fmt.Errorf("%w: a lease of %s without renewal did not end in %v", errPromise, name, waited)
	}
	return nil
}
