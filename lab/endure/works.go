package endure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// work is one kind of operation. Do gets a name that is not used again.
type work struct {
	name string
	do   func(ctx context.Context, m *member, name string) error
}

// works lists the kinds, those that are done more often several times.
func works() (all []work) {
	for _, w := range []struct {
		work
		times int
	}{
		{work{"mutex", mutex}, 4},
		{work{"guarded", guarded}, 6},
		{work{"held", held}, 2},
		{work{"readers", readers}, 2},
		{work{"semaphore", semaphore}, 2},
		{work{"once", once}, 2},
		{work{"job", job}, 2},
		{work{"latch", latch}, 2},
		{work{"linger", linger}, 2},
		{work{"recall", recall}, 1},
		{work{"try", try}, 2},
		{work{"ctx ends", ctxEnds}, 2},
		{work{"ctx ends early", ctxEndsEarly}, 2},
		{work{"break", breakHolder}, 1},
		{work{brokenWait, breakWait}, 1},
		{work{"expire", expire}, 1},
		{work{"ticket", handTicket}, 1},
		{work{"multi", multi}, 1},
		{work{"condition", condition}, 1},
		{work{"election", election}, 1},
		{work{"reentry", reentry}, 1},
		{work{"fallback", fallback}, 1},
		{work{"read", read}, 1},
	} {
		for range 3 * w.times {
			all = append(all, w.work)
		}
	}
	// The store remembers each client for an hour, so there are few.
	return append(all, work{"client", shortClient})
}

// brokenWait is the work that a quorum does not allow.
const brokenWait = "break a wait"

// ttl is that of the leases that come and go: short, so that a killed process does not block others for long.
const ttl = 3 * time.Second

func short() holdfast.LockOption { return holdfast.WithTTL(ttl) }

// pause waits for up to d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// mutex holds for a moment.
func mutex(ctx context.Context, m *member, name string) error {
	return m.c.Mutex(name, short()).Do(ctx, func(ctx context.Context) error {
		pause(ctx, 5*time.Millisecond)
		return nil
	})
}

// held holds for long enough to be renewed, and to listen for wake-ups.
func held(ctx context.Context, m *member, name string) error {
	return m.c.Mutex(name, short(), holdfast.WithReason("held for some time")).Do(ctx, func(ctx context.Context) error {
		pause(ctx, ttl/2)
		return nil
	})
}

// guards is the number of resources that processes lock against each other.
const guards = 8

// guarded enters a guarded counter, against other processes.
func guarded(ctx context.Context, m *member, _ string) error {
	i := rand.IntN(guards)
	name := fmt.Sprintf("guarded:%d", i)
	c := m.c
	if rand.IntN(2) == 0 {
		c = m.second
	}
	var l *holdfast.Lease
	var err error
	switch i % 4 {
	case 0:
		l, err = c.Mutex(name, short()).Lock(ctx)
	case 1:
		l, err = c.Mutex(name, short(), holdfast.WithLinger(ttl/3)).Lock(ctx)
	case 2:
		l, err = c.RWMutex(name, short()).Lock(ctx)
	case 3:
		l, err = c.Semaphore(name, 3, short()).Acquire(ctx, 3)
	}
	if err != nil {
		return err
	}
	err = m.vault.add(name, l, func() { pause(ctx, 10*time.Millisecond) })
	return errors.Join(err, l.Release(ctx))
}

// readers share a lease, and a writer of the other client waits for them and is demoted.
func readers(ctx context.Context, m *member, name string) error {
	var wg sync.WaitGroup
	var errs [3]error
	for i := range errs {
		wg.Go(func() {
			errs[i] = m.c.RWMutex(name, short()).RDo(ctx, func(ctx context.Context) error {
				pause(ctx, 10*time.Millisecond)
				return nil
			})
		})
	}
	w, err := m.second.RWMutex(name, short()).Lock(ctx)
	if err == nil {
		err = errors.Join(w.Demote(ctx), w.Release(ctx))
	}
	wg.Wait()
	return errors.Join(err, errors.Join(errs[:]...))
}

// semaphore takes two of three units, and is refused two more.
func semaphore(ctx context.Context, m *member, name string) error {
	l, err := m.c.Semaphore(name, 3, short()).Acquire(ctx, 2)
	if err != nil {
		return err
	}
	other := m.second.Semaphore(name, 3, short())
	if err = refused(l, func() (*holdfast.Lease, error) { return other.TryAcquire(ctx, 2) }); err == nil {
		err = other.Do(ctx, 1, func(context.Context) error { return nil })
	}
	return errors.Join(err, l.Release(ctx))
}

// refused requires that an attempt is refused while a lease is held.
func refused(held *holdfast.Lease, try func() (*holdfast.Lease, error)) error {
	l, err := try()
	if _, busy := errors.AsType[*holdfast.HeldError](err); busy {
		return nil
	}
	if err != nil {
		return err
	}
	valid := held.Err() == nil
	err = l.Release(context.Background())
	if valid {
		return fmt.Errorf("%w: %s was granted with token %d while token %d was held", errPromise, l.Resource(), l.Token(), held.Token())
	}
	return err
}

// keepMark is how long marks last.
const keepMark = 5 * time.Second

// once does work that is done, and is refused to do it again.
func once(ctx context.Context, m *member, name string) error {
	nothing := func(context.Context) error { return nil }
	began := time.Now()
	if ran, err := m.c.Once(ctx, name, keepMark, nothing); err != nil || !ran {
		return errors.Join(err, unless(ran))
	}
	ran, err := m.second.Once(ctx, name, keepMark, nothing)
	if ran && time.Since(began) < keepMark/2 { // the mark is younger than that
		return fmt.Errorf("%w: the work of %s ran twice", errPromise, name)
	}
	return err
}

func unless(ran bool) error {
	if ran {
		return nil
	}
	return errMissed
}

// job runs a slot, and not twice.
func job(ctx context.Context, m *member, name string) error {
	runs, began := 0, time.Now()
	for _, c := range []*holdfast.Client{m.c, m.second} {
		ran, err := c.Job(name, short(), holdfast.AtLeast(keepMark)).Run(ctx, func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		if ran {
			runs++
		}
	}
	if runs > 1 && time.Since(began) < keepMark/2 {
		return fmt.Errorf("%w: the slot of %s ran twice", errPromise, name)
	}
	return unless(runs > 0)
}

// latch counts down from two.
func latch(ctx context.Context, m *member, name string) error {
	l := m.c.Latch(name, short())
	if set, err := l.TrySet(ctx, 2); err != nil || !set {
		return errors.Join(err, unless(set))
	}
	waited := make(chan error, 1)
	go func() { waited <- m.second.Latch(name, short()).Wait(ctx) }()
	err := errors.Join(l.CountDown(ctx), l.CountDown(ctx), <-waited)
	if errors.Is(err, holdfast.ErrLatchEnded) { // its TTL ran out in a failover
		return errMissed
	}
	return err
}

// linger locks a resource several times, with a call to the store for the first time.
func linger(ctx context.Context, m *member, name string) error {
	for range 3 {
		if err := m.c.Mutex(name, short(), holdfast.WithLinger(ttl/3)).Do(ctx, func(context.Context) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

// recall takes a lease that lingers elsewhere.
func recall(ctx context.Context, m *member, name string) error {
	if err := linger(ctx, m, name); err != nil {
		return err
	}
	return m.second.Mutex(name, short()).Do(ctx, func(context.Context) error { return nil })
}

// try is refused what another client holds.
func try(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, short()).Lock(ctx)
	if err != nil {
		return err
	}
	err = refused(l, func() (*holdfast.Lease, error) { return m.second.Mutex(name, short()).TryLock(ctx) })
	return errors.Join(err, l.Release(ctx))
}

// fresh reports whether a text is a name that is used once, and when it was made.
func fresh(name string) (made time.Time, ok bool) {
	rest, ok := strings.CutPrefix(name, freshName+":")
	if !ok {
		return time.Time{}, false
	}
	var seconds int64
	if _, err := fmt.Sscanf(rest, "%d:", &seconds); err != nil {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0), true
}
