package holdfast

import (
	"context"
	"errors"
	"fmt"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// localUser joins the local lock of an acquirer.
type localUser struct {
	t  *testing.T
	lk *acquirer
}

func (u localUser) join(id string, weight int) *localHold {
	u.t.Helper()
	p, err := u.lk.c.local.join(u.lk, id, weight, andWait)
	if err != nil {
		u.t.Fatal(err)
	}
	return p
}

func (p *localHold) held() bool {
	p.locks.mu.Lock()
	defer p.locks.mu.Unlock()
	return p.state == localHeld
}

// wantHeld checks which of the holds are granted, in order: "gw" is granted, waiting.
func wantHeld(t *testing.T, want string, all ...*localHold) {
	t.Helper()
	got := ""
	for _, p := range all {
		if p.held() {
			got += "g"
		} else {
			got += "w"
		}
	}
	if got != want {
		t.Errorf("the holds are %q, want %q (g granted, w waiting)", got, want)
	}
}

func TestNothingPassesTheFrontOfALocalLock(t *testing.T) {
	s := opened(t).Semaphore("x", 2)
	u := localUser{t, &s.acquirer}
	a, b := u.join("a", 1), u.join("b", 1)
	heavy, light, last := u.join("heavy", 2), u.join("light", 1), u.join("last", 1)
	wantHeld(t, "ggwww", a, b, heavy, light, last)
	a.release()
	wantHeld(t, "www", heavy, light, last) // a unit is free, and the front does not fit
	b.release()
	wantHeld(t, "gww", heavy, light, last)
	heavy.release()
	wantHeld(t, "gg", light, last)
	if late := u.join("late", 1); late.held() {
		t.Error("a third unit of two was granted")
	}
}

// If the front gives up its place, those behind it that fit enter.
func TestAWithdrawnFrontAdmitsThoseBehind(t *testing.T) {
	s := opened(t).Semaphore("x", 2)
	u := localUser{t, &s.acquirer}
	a, heavy, light := u.join("a", 1), u.join("heavy", 2), u.join("light", 1)
	wantHeld(t, "gww", a, heavy, light)
	heavy.release()
	wantHeld(t, "gg", a, light)
}

func TestAReleasedLocalLockIsForgotten(t *testing.T) {
	c := opened(t)
	u := localUser{t, &c.Mutex("x").acquirer}
	a, b := u.join("a", 1), u.join("b", 1)
	a.release()
	a.release() // does nothing more
	wantHeld(t, "g", b)
	if w := u.join("c", 1); w.held() {
		t.Error("a second release of one hold admitted two")
	} else {
		w.release()
	}
	b.release()
	if n := len(c.local.open); n != 0 {
		t.Errorf("%d locks are kept that nobody uses", n)
	}
	(*localHold)(nil).release() // no hold
	(*localHold)(nil).demote(1)
}

func TestABusyLocalLockNamesItsOldestHolder(t *testing.T) {
	c := opened(t)
	s := c.Semaphore("x", 2, WithReason("restock"))
	u := localUser{t, &s.acquirer}
	u.join("oldest", 1)
	u.join("second", 1)
	u.join("waiter", 1)
	_, err := c.local.join(&s.acquirer, "other", 1, noWait)
	held, ok := errors.AsType[*HeldError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if held.HolderID != "oldest" || held.Reason != "restock" || held.Waiters != 1 || held.Name != c.info.Name || held.TTL != DefaultTTL {
		t.Errorf("got %+v", held)
	}
}

func TestALocalLockHasOneKindAndCapacity(t *testing.T) {
	c := opened(t)
	localUser{t, &c.Mutex("x").acquirer}.join("a", 1)
	localUser{t, &c.Semaphore("y", 2).acquirer}.join("a", 1)
	for _, lk := range []*acquirer{&c.Semaphore("x", 1).acquirer, &c.Semaphore("y", 3).acquirer} {
		if _, err := c.local.join(lk, "b", 1, andWait); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s of %d on %s: %v", lk.kind, lk.capacity, lk.name, err)
		}
	}
}

func TestDemoteAdmitsLocalReaders(t *testing.T) {
	u := localUser{t, &opened(t).RWMutex("x").acquirer}
	w := u.join("writer", rwCapacity)
	r1, next, r2 := u.join("r1", 1), u.join("next writer", rwCapacity), u.join("r2", 1)
	wantHeld(t, "gwww", w, r1, next, r2)
	w.demote(1)
	wantHeld(t, "ggww", w, r1, next, r2)
	w.demote(1)
	w.release()
	w.demote(1) // it has ended: nothing is left to lower
	wantHeld(t, "gww", r1, next, r2)
	r1.release()
	wantHeld(t, "gw", next, r2)
}

func TestAWaitForALocalLockEnds(t *testing.T) {
	cause := errors.New("the caller left")
	for name, tt := range map[string]struct {
		end  func(c *Client, cancel context.CancelCauseFunc, granted *Lease, first *localHold)
		want []error
	}{
		"granted": {func(_ *Client, _ context.CancelCauseFunc, _ *Lease, first *localHold) { first.release() }, nil},
		"ctx": {func(_ *Client, cancel context.CancelCauseFunc, _ *Lease, _ *localHold) { cancel(cause) },
			[]error{ErrNotAcquired, cause}},
		"client": {func(c *Client, _ context.CancelCauseFunc, _ *Lease, _ *localHold) { c.endLife() },
			[]error{ErrNotAcquired, ErrClosed}},
		"the lease that waits is lost": {func(_ *Client, _ context.CancelCauseFunc, l *Lease, _ *localHold) {
			_ = l.end(&LostError{Resource: "x", Cause: LostDeleted})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := opened(t)
				u := localUser{t, &c.Mutex("x").acquirer}
				first, p, next := u.join("first", 1), u.join("second", 1), u.join("third", 1)
				granted, err := c.Mutex("y").Lock(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				ended := make(chan error, 1)
				go func() { ended <- p.wait(ctx, granted) }()
				time.Sleep(time.Hour)
				select {
				case err := <-ended:
					t.Fatal("the wait ended by itself:", err)
				default:
				}
				tt.end(c, cancel, granted, first)
				err = <-ended
				if tt.want == nil && err != nil {
					t.Error(err)
				}
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
				if err == nil {
					p.release()
				}
				first.release()
				wantHeld(t, "g", next) // nothing is left of p
			})
		})
	}
}

// substitute returns a lease without the store, and its hold on the local lock.
func substitute(t *testing.T, m *Mutex) (*Lease, *localHold) {
	t.Helper()
	p := localUser{t, &m.acquirer}.join("substitute", 1)
	l, err := newFallbackGrant(&m.acquirer, p.holder, 1, p).take(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return l, p
}

// The next caller is admitted once the lease has ended, and not before.
func TestALeaseWithoutTheStoreEndsBeforeItsHold(t *testing.T) {
	l, p := substitute(t, opened(t).Mutex("x", WithFallback(LocalOnly)))
	var heldAtTheEnd bool
	l.notify(func(error) { heldAtTheEnd = p.held() })
	l.grant.(*fallbackGrant).end(&LostError{Resource: "x", Cause: LostExpired})
	if !heldAtTheEnd || p.held() {
		t.Errorf("held when the lease ended: %v, after that: %v", heldAtTheEnd, p.held())
	}
}

// A lease of the store that is lost while it waits for the local lock is not returned, and
// takes no hold.
func TestALeaseThatIsLostInTheLocalQueueTakesNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t)
		m := c.Mutex("x", WithFallback(LocalOnly))
		_, first := substitute(t, m)
		granted := granted(t, m).take(context.Background())
		type admission struct {
			l   *Lease
			err error
		}
		got := make(chan admission, 1)
		go func() {
			l, err := m.admitGranted(context.Background(), 1, andWait, granted)
			got <- admission{l, err}
		}()
		synctest.Wait()
		granted.grant.(*storeGrant).lose(&LostError{Resource: "x", Cause: LostDeleted})
		if a := <-got; a.l != nil || a.err != nil {
			t.Errorf("got %v, %v; the caller has to try again", a.l, a.err)
		}
		first.release()
		if len(c.local.open) != 0 {
			t.Error("the lost lease has a hold on the local lock")
		}
	})
}

// So it is if an operator breaks it, and it is released: its caller, who never had it, cannot do that.
func TestALeaseThatIsBrokenInTheLocalQueueIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := c.Mutex("x", WithFallback(LocalOnly))
		_, first := substitute(t, m)
		got := make(chan *Lease, 1)
		go func() {
			l, _ := m.Lock(context.Background())
			got <- l
		}()
		synctest.Wait()
		broken := c.wakeups.grants()[0]
		if err := c.Break(context.Background(), "x", broken.id()); err != nil {
			t.Fatal(err)
		}
		broken.lose(&LostError{Resource: "x", Cause: LostBroken})
		synctest.Wait()
		if len(got) > 0 {
			t.Fatalf("returned beside the one with the local lock: %v", (<-got).Err())
		}
		first.release()
		l := <-got
		if l.Err() != nil || l.grant.(*storeGrant).local.Load() == nil {
			t.Errorf("got a lease that has ended, or has no hold: %v", l.Err())
		}
		if err := l.Release(context.Background()); err != nil || len(c.local.open) != 0 {
			t.Errorf("%v, %d local locks are left", err, len(c.local.open))
		}
	})
}

// A lease that has ended gets no local hold, even if another caller has the grant by then.
func TestAHoldIsOfTheLeaseThatTookIt(t *testing.T) {
	c := opened(t)
	m := c.Mutex("x", WithFallback(LocalOnly))
	h := granted(t, m)
	first := h.take(context.Background())
	h.remove(first)
	second := h.take(context.Background())
	p := localUser{t, &m.acquirer}.join("first", 1)
	if h.setLocal(first, p) || !h.setLocal(second, p) {
		t.Error("the hold was set for a lease that has ended")
	}
}

// endsInTheQueue is a ctx that ends when its caller has joined the queue of the local lock.
type endsInTheQueue struct {
	context.Context
	c *Client
}

func (e endsInTheQueue) Err() error {
	e.c.local.mu.Lock()
	defer e.c.local.mu.Unlock()
	if len(e.c.local.open) == 0 {
		return nil
	}
	return context.Canceled
}

// An attempt that falls back joins the queue of the local lock at once. If ctx ends at that
// moment, it leaves the queue.
func TestACallerThatFallsBackTooLateLeavesTheLocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(silent{memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Mutex("x", WithFallback(LocalOnly)).Lock(endsInTheQueue{context.Background(), c})
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if len(c.local.open) != 0 {
			t.Error("the caller is still in the queue")
		}
	})
}

// silent is a store that answers no request.
type silent struct{ *memory.Engine }

func (silent) Acquire(ctx context.Context, _ engine.Request) (engine.Answer, error) {
	<-ctx.Done()
	return engine.Answer{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
}

func (silent) Peek(context.Context, engine.Resource) (engine.Brief, error) {
	return engine.Brief{}, engine.ErrUnavailable
}

// panicsAtCleanup is a hook that panics when a release is left to the TTL.
type panicsAtCleanup struct{}

func (panicsAtCleanup) CleanupFailed(CleanupFailedEvent) { panic("the hook panics") }

// An attempt that falls back has joined the queue of the local lock. If a hook panics while it is withdrawn, it leaves that queue.
func TestAPanicAfterAFallbackLeavesTheLocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(silent{memory.New()}, WithHooks(panicsAtCleanup{}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fill(c, releaseQueueMax)
		defer fill(c, 0)
		var panicked any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { panicked = recover() }()
			_, _ = c.Mutex("x", WithFallback(LocalOnly)).Lock(context.Background())
		}()
		if <-done; panicked == nil {
			t.Fatal("the hook was not called")
		}
		if len(c.local.open) != 0 {
			t.Error("the caller is still in the queue")
		}
		if l, _ := c.lines.TryJoin((&c.Mutex("x", WithFallback(LocalOnly)).acquirer).key()); l == nil {
			t.Error("the turn of the line is still taken")
		}
	})
}

// fill makes the queue of releases have n that are not due.
func fill(c *Client, n int) {
	c.releases.mu.Lock()
	defer c.releases.mu.Unlock()
	c.releases.again = slices.Repeat([]*queuedRelease{{from: math.MaxInt64}}, n)
}
