package holdfast

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// The moments tested here lie between two statements of the client, where no
// engine and no timer can be put.

func opened(t *testing.T) *Client {
	t.Helper()
	c, err := New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// granted returns a grant that backs no lease yet.
func granted(t *testing.T, m *Mutex) *storeGrant {
	t.Helper()
	a := m.newAttempt(1, nil, andWait, SpanRef{})
	ans, sent, err := a.send(context.Background())
	if err != nil || ans.Status != engine.Granted {
		t.Fatal(ans, err)
	}
	return a.newGrant(sent, ans.Token, ans.TTL)
}

// shutWindow makes the clock pass the end of the trust window, as after a pause
// of the process: no timer has had time to run.
func (l *Lease) shutWindow() {
	h := l.grant.(*storeGrant)
	h.entry.Window.Start(h.client().keep.At(time.Now().Add(-time.Hour)), time.Second, 0)
}

func TestLostBeforeItBacksALease(t *testing.T) {
	c := opened(t)
	h := granted(t, c.Mutex("x"))
	if err := c.Break(context.Background(), "x", h.id()); err != nil {
		t.Fatal(err)
	}
	h.wake(engine.Wakeup{Kind: engine.WakeBroken, ID: h.id()})
	if l := h.take(context.Background()); l != nil {
		t.Fatalf("a lost lease was handed out: Err %v", l.Err())
	}
}

func TestFirstTurnHasTheGrantedToken(t *testing.T) {
	c := opened(t)
	h := granted(t, c.Mutex("x"))
	want := h.held.Token
	if got := h.take(context.Background()).Token(); got != want {
		t.Errorf("token %d, granted %d", got, want)
	}
}

// A loss is reported in several steps. Between them Err must not return nil once the
// trust window is closed.
func TestErrWhileALossIsReported(t *testing.T) {
	c := opened(t)
	l, err := c.Mutex("x").Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ctx := l.Context()
	l.shutWindow()
	l.grant.(*storeGrant).end(l.grant.(*storeGrant).expired(nil)) // first step; the lease ends next
	if !errors.Is(l.Err(), ErrLost) {
		t.Errorf("Err: %v", l.Err())
	}
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrLost) {
		t.Errorf("context: %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
}

func TestFirstCallAfterAPauseReportsTheLoss(t *testing.T) {
	for name, look := range map[string]func(l *Lease, ctx context.Context) bool{
		"Err":      func(l *Lease, _ context.Context) bool { return errors.Is(l.Err(), ErrLost) },
		"ctx.Err":  func(_ *Lease, ctx context.Context) bool { return ctx.Err() != nil },
		"ctx.Done": func(_ *Lease, ctx context.Context) bool { return isClosed(ctx.Done()) },
		"Done":     func(l *Lease, _ context.Context) bool { return isClosed(l.Done()) },
		"Context":  func(l *Lease, _ context.Context) bool { return l.Context().Err() != nil },
		"Release":  func(l *Lease, _ context.Context) bool { return errors.Is(l.Release(context.Background()), ErrLost) },
		"Detach": func(l *Lease, _ context.Context) bool {
			_, err := l.Detach(context.Background())
			return errors.Is(err, ErrLost)
		},
		"context.Err": func(_ *Lease, ctx context.Context) bool {
			child, end := context.WithCancel(ctx)
			defer end()
			return child.Err() != nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := opened(t)
			l, err := c.Mutex("x").Lock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ctx := l.Context()
			l.shutWindow()
			if !look(l, ctx) {
				t.Error("the pause went unnoticed")
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// The context of a re-entrant lease checks its parent context, which may end both
// leases: the mutex of neither may be held then.
func TestReentrantContextsAfterAPause(t *testing.T) {
	for _, through := range []string{"context", "release"} {
		t.Run(through, func(t *testing.T) {
			c := opened(t)
			m := c.Mutex("x", WithReentrancy())
			outer, err := m.Lock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			inner, err := m.Lock(outer.Context())
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			if through == "release" {
				inner.Context()
			}
			outer.shutWindow()
			go func() {
				if through == "context" {
					done <- inner.Context().Err()
				} else {
					done <- inner.Release(context.Background())
				}
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("the loss went unnoticed")
				}
			case <-time.After(10 * time.Second):
				t.Fatal("deadlock")
			}
		})
	}
}

// A caller that re-enters while another one releases the lease must not get a lease of
// the next caller's turn.
func TestReentryIntoATurnThatWasPassedOn(t *testing.T) {
	c := opened(t)
	m := c.Mutex("x", WithReentrancy())
	first, err := m.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	h := first.grant.(*storeGrant)
	if last, held, _ := h.remove(first); !last || !held {
		t.Fatal(last, held)
	}
	if second := h.take(context.Background()); second == nil {
		t.Fatal("not passed on")
	}
	if l, err := h.reenter(first, context.Background(), &m.acquirer, 1); l != nil || err != nil {
		t.Error("two parties stand on one turn")
	}
}

// A wake-up that was under way to an ID that has ended since must not be taken
// for one to the fresh ID.
func TestWakeupForAnIDThatHasEnded(t *testing.T) {
	c := opened(t)
	a := c.Mutex("x").newAttempt(1, nil, andWait, SpanRef{})
	a.listenFor()
	old := c.wakeups.waiting[a.req.ID]
	if err := a.restart(&engine.EndedError{Cause: engine.CauseExpired}); err != nil {
		t.Fatal(err)
	}
	old.wake(engine.Wakeup{Kind: engine.WakeGrant, ID: "old", Token: 1, TTL: time.Minute})
	select {
	case w := <-a.wakes:
		t.Errorf("the attempt with a fresh ID got %+v", w)
	default:
	}
}

// Of concurrent releases one succeeds, and the others return an error. None spins.
func TestReleaseWhileAnotherReleaseIsUnderWay(t *testing.T) {
	c := opened(t)
	l, err := c.Mutex("x").Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	l.grant.(*storeGrant).remove(l) // the other one has come this far
	if err := l.Release(context.Background()); !errors.Is(err, ErrNotHeld) || !errors.Is(err, ErrReleased) {
		t.Errorf("second release: %v", err)
	}
}

// A break hands the turn of the line off. A release that begins before the trust window of the broken
// lease closes, and goes on after that, does not hand it off again.
func TestTurnOfABrokenLeaseIsHandedOffOnce(t *testing.T) {
	c := opened(t)
	m := c.Mutex("x", WithFallback(LocalOnly))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h := l.grant.(*storeGrant)
	c.lines.Join(m.key()) // the next caller
	h.lose(&LostError{Resource: "x", Cause: LostBroken})
	if n := h.line.Waiting(); n != 0 {
		t.Fatalf("%d callers wait: the break has not handed the turn off", n)
	}
	c.lines.Join(m.key()) // another one, which waits for the first

	c.local.mu.Lock() // the release stops after it has removed the lease
	released := make(chan error, 1)
	go func() { released <- l.Release(ctx) }()
	for h.local.Load() != nil {
		runtime.Gosched()
	}
	h.lose(h.expired(nil))
	c.local.mu.Unlock()
	if err := <-released; !errors.Is(err, ErrLost) {
		t.Errorf("Release: %v", err)
	}
	if n := h.line.Waiting(); n != 1 {
		t.Errorf("%d callers wait; want 1, behind the one with the turn", n)
	}
}

// A release that follows another is made once the outcome of that one is noted: Close reports it
// when the second one has ended.
func TestReleaseThatFollowsHasTheOutcomeOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := opened(t)
		h := granted(t, c.Mutex("x"))
		noted, both := false, make(chan bool, 1)
		c.releases.add(&queuedRelease{
			release: h.releaseRequest(),
			confirm: func(error) {
				time.Sleep(time.Second)
				noted = true
			},
			then: &queuedRelease{
				release: h.releaseRequest(),
				confirm: func(error) { both <- noted },
			},
		})
		if !<-both {
			t.Error("the second release had ended before the outcome of the first was noted")
		}
	})
}

// A context that is derived from the lease's ends by a timer, so after a pause it may end
// later than the lease's own, as documented at Lease.Context.
func TestDerivedContextAfterAPause(t *testing.T) {
	l, err := opened(t).Mutex("x").Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	child, end := context.WithCancel(l.Context())
	defer end()
	l.shutWindow()
	if child.Err() != nil {
		t.Error("the derived context looks at the clock: its documentation says that it does not")
	}
	if l.Context().Err() == nil {
		t.Error("the lease's own does not")
	}
	<-child.Done() // it ends, by a timer
}

// renewing is a store that calls a function after each renewal.
type renewing struct {
	*memory.Engine
	after func()
}

func (e renewing) Renew(ctx context.Context, all []engine.Renewal) []error {
	defer e.after()
	return e.Engine.Renew(ctx, all)
}

// A client does not adopt a lease that it holds. After a pause of the process that lease may be over, before any timer has run: then
// the ticket is not invalid, but the lease is lost.
func TestAdoptAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause := func() {}
		c, err := New(renewing{memory.New(), func() { pause() }})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l, err := c.Mutex("x").Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		first, err := c.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		pause = first.shutWindow
		for _, when := range []string{"during the call", "before the call"} {
			if _, err = c.Adopt(context.Background(), ticket); !errors.Is(err, ErrLost) || errors.Is(err, ErrInvalid) {
				t.Errorf("a pause %s: got %v", when, err)
			}
			pause = func() {}
			time.Sleep(time.Second)
		}
		if err := first.Err(); !errors.Is(err, ErrLost) {
			t.Errorf("the first lease: %v", err)
		}
	})
}
