package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// journal is a hook that writes one line for each event except renewals, in the order of
// the calls. Tokens are counted from the first one of the resource.
type journal struct {
	mu    sync.Mutex
	lines []string
	first map[string]uint64
}

func (j *journal) line(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) token(resource string, token uint64) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if token == 0 {
		return "-"
	}
	if j.first == nil {
		j.first = make(map[string]uint64)
	}
	if _, found := j.first[resource]; !found {
		j.first[resource] = token
	}
	return fmt.Sprint(token - j.first[resource])
}

// inBrief names an error.
func inBrief(err error) string {
	for _, k := range []struct {
		is   error
		name string
	}{
		{holdfast.ErrLost, "lost"}, {holdfast.ErrReleased, "released"}, {holdfast.ErrClosed, "closed"}, {holdfast.ErrUnavailable, "unavailable"},
		{context.DeadlineExceeded, "deadline"}, {context.Canceled, "canceled"}, {holdfast.ErrNotAcquired, "not acquired"},
	} {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	return fmt.Sprint(err)
}

func (j *journal) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	if e.Err != nil {
		j.line("fail %s %s: %s", e.Resource, e.Outcome, inBrief(e.Err))
		return
	}
	j.line("grant %s %s %s", e.Resource, j.token(e.Resource, e.Token), e.Source)
}

func (j *journal) Wait(_ context.Context, e holdfast.WaitEvent) {
	j.line("wait %s %s %d %s, %d ahead", e.Resource, e.Kind, e.Weight, e.Queue, e.Ahead)
}

func (j *journal) Withdraw(_ context.Context, e holdfast.WithdrawEvent) {
	j.line("withdraw %s %s %d %s, %d ahead, after %v: %s", e.Resource, e.Kind, e.Weight, e.Queue, e.Ahead, e.Waited, inBrief(e.Err))
}

func (j *journal) JeopardyStart(e holdfast.JeopardyStartEvent) {
	j.line("jeopardy %s %s %s: %s", e.Resource, e.Kind, j.token(e.Resource, e.Token), inBrief(e.Err))
}

func (j *journal) JeopardyEnd(e holdfast.JeopardyEndEvent) {
	j.line("jeopardy over %s %s %s: %s", e.Resource, e.Kind, j.token(e.Resource, e.Token), inBrief(e.Err))
}

func (j *journal) Lost(e *holdfast.LostError) {
	j.line("lost %s %s %s", e.Resource, j.token(e.Resource, e.Token), e.Cause)
}

func (j *journal) Release(e holdfast.ReleaseEvent) {
	line := fmt.Sprintf("release %s %s %s to %s", e.Resource, e.Kind, j.token(e.Resource, e.Token), e.HandOff)
	if e.Err != nil {
		line += ": " + inBrief(e.Err)
	}
	j.line("%s", line)
}

func (j *journal) Break(e holdfast.BreakEvent) {
	j.line("break %s %s %s", e.Resource, e.Kind, j.token(e.Resource, e.Token))
}

func (j *journal) Recall(e holdfast.RecallEvent) {
	j.line("recall %s %s %s", e.Resource, e.Kind, j.token(e.Resource, e.Token))
}

func (j *journal) FallbackStart(e holdfast.FallbackStartEvent) {
	j.line("fallback after %v: %s", e.Silent, inBrief(e.Err))
}

func (j *journal) FallbackEnd(e holdfast.FallbackEndEvent) {
	if e.Silent < time.Second {
		j.line("a silence of %v", e.Silent)
	}
	j.line("fallback over")
}

func (j *journal) CleanupFailed(e holdfast.CleanupFailedEvent) {
	j.line("cleanup failed %s %s: %s", e.Resource, j.token(e.Resource, e.Token), inBrief(e.Err))
}

// want compares the lines since the last call.
func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("events:\n  %s\nwant:\n  %s", strings.Join(j.lines, "\n  "), strings.Join(want, "\n  "))
	}
	j.lines = nil
}

// sort puts the events of several goroutines in an order that does not depend on which ran first.
func (j *journal) sort() {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.Sort(j.lines)
}

func TestEventsOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := memory.New()
		c, other := newClient(t, e, holdfast.WithHooks(j)), newClient(t, e)
		m := c.Mutex("x")
		foreign := mustLock(t, other.Mutex("x").Lock, context.Background())
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		first := lockSoon(ctx, m.Lock)
		j.want(t, "wait x mutex 1 store, 0 ahead")
		second := lockSoon(context.Background(), m.Lock)
		j.want(t, "wait x mutex 1 process, 0 ahead")
		third := lockSoon(ctx, m.Lock)
		j.want(t, "wait x mutex 1 process, 1 ahead")
		if s := c.Stats(); s.WaitStore != 1 || s.WaitProcess != 2 || s.WaitFallback != 0 {
			t.Errorf("one waits in the store's queue and two in that of the process: %+v", s)
		}

		// The second caller takes over the place of the first one in the store's queue.
		time.Sleep(10*time.Second + time.Millisecond)
		<-first
		<-third
		j.sort() // both ended at the same moment
		j.want(t,
			"fail x canceled: deadline", "fail x canceled: deadline",
			"wait x mutex 1 store, 0 ahead",
			"withdraw x mutex 1 process, 1 ahead, after 10s: deadline",
			"withdraw x mutex 1 store, 0 ahead, after 10s: deadline",
		)
		if s := c.Stats(); s.WaitStore != 1 || s.WaitProcess != 0 {
			t.Errorf("one has taken the place in the store's queue: %+v", s)
		}
		mustRelease(t, foreign)
		l := wantGrant(t, second).lease
		j.want(t, "grant x 0 push")
		if s := c.Stats(); s.Wakeups == 0 {
			t.Errorf("a grant was pushed: %+v", s)
		}
		fourth := lockSoon(context.Background(), m.Lock)
		j.want(t, "wait x mutex 1 process, 0 ahead")
		mustRelease(t, l)
		j.sort()
		j.want(t, "grant x 1 process", "release x mutex 0 to process")
		l = wantGrant(t, fourth).lease
		fifth := lockSoon(context.Background(), m.Lock)
		j.want(t, "wait x mutex 1 process, 0 ahead")
		time.Sleep(time.Second) // longer than a slice
		mustRelease(t, l)
		l = wantGrant(t, fifth).lease
		j.sort()
		if len(j.lines) != 2 || !strings.HasPrefix(j.lines[0], "grant x ") || j.lines[1] != "release x mutex 1 to yield" {
			t.Errorf("a yield: %q", j.lines)
		}
		j.lines = nil
		mustRelease(t, l)
		if len(j.lines) != 1 || !strings.HasSuffix(j.lines[0], " to store") {
			t.Errorf("a release: %q", j.lines)
		}
		wantIdle(t, c)
	})
}

// A wait ends by Close, by a break or by a mark, and each is reported once.
func TestEventsOfWaitsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := memory.New()
		c, other := newClient(t, e, holdfast.WithHooks(j)), newClient(t, e)
		s := other.Semaphore("s", 3)
		foreign := mustLock(t, units(s, 3), context.Background())
		waiting := lockSoon(context.Background(), units(c.Semaphore("s", 3), 2))
		j.want(t, "wait s semaphore 2 store, 0 ahead")
		if err := other.Break(context.Background(), "s", look(t, e, "s").Waiters[0].ID); err != nil {
			t.Fatal(err)
		}
		<-waiting
		j.want(t, "withdraw s semaphore 2 store, 0 ahead, after 0s: not acquired", "break s semaphore -", "fail s broken: not acquired")
		waiting = lockSoon(context.Background(), units(c.Semaphore("s", 3), 1))
		j.want(t, "wait s semaphore 1 store, 0 ahead")
		_ = c.Close()
		<-waiting
		j.want(t, "withdraw s semaphore 1 store, 0 ahead, after 0s: closed", "fail s error: closed")
		mustRelease(t, foreign)
		wantIdle(t, c)
	})
}

func TestEventsOfAJeopardy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFaulty()
		c := newClient(t, e, holdfast.WithHooks(j))
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		j.want(t, "grant x 0 store")
		time.Sleep(4900 * time.Millisecond)
		e.All(down)
		time.Sleep(time.Second)
		if s := c.Stats(); s.LateRenewals != 1 || s.Leases != 1 {
			t.Errorf("after a renewal that failed: %+v", s)
		}
		j.want(t) // more than half of the TTL is left
		time.Sleep(2 * time.Second)
		j.want(t, "jeopardy x mutex 0: unavailable")
		time.Sleep(2 * time.Second)
		j.want(t) // once
		e.All(nil)
		time.Sleep(2 * time.Second)
		j.want(t, "jeopardy over x mutex 0: <nil>")
		if s := c.Stats(); s.LateRenewals != 0 {
			t.Errorf("after a renewal: %+v", s)
		}

		e.All(down)
		<-l.Done()
		j.want(t, "jeopardy x mutex 0: unavailable", "jeopardy over x mutex 0: lost", "lost x 0 unreachable")
		if s := c.Stats(); s.Losses != (holdfast.Losses{Unreachable: 1}) || s.Leases != 0 || s.Releases != 1 {
			t.Errorf("after a loss: %+v", s)
		}
		// The release of the lost lease is retried for as long as the TTL.
		time.Sleep(time.Minute)
		j.want(t, "cleanup failed x 0: unavailable")
		wantIdle(t, c)
	})
}

// A release during a jeopardy ends it; the clean-up goes on and fails.
func TestEventsOfAReleaseInJeopardy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFaulty()
		c := newClient(t, e, holdfast.WithHooks(j))
		m := c.Mutex("x")
		l := mustLock(t, m.Lock, context.Background())
		next := lockSoon(context.Background(), m.Lock)
		j.want(t, "grant x 0 store", "wait x mutex 1 process, 0 ahead")
		e.All(down)
		time.Sleep(8 * time.Second)
		j.want(t, "jeopardy x mutex 0: unavailable")
		if err := l.Release(context.Background()); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("Release: %v", err)
		}
		j.want(t, "jeopardy over x mutex 0: released", "release x mutex 0 to yield: unavailable")
		e.All(nil)
		l = wantGrant(t, next).lease
		synctest.Wait()
		j.lines = nil
		e.All(hang)
		if err := l.Release(context.Background()); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("Release: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(j.lines) != 2 || !strings.HasSuffix(j.lines[0], " to store: unavailable") || !strings.HasPrefix(j.lines[1], "cleanup failed x ") {
			t.Errorf("events: %q", j.lines)
		}
		wantIdle(t, c)
	})
}

func TestEventsOfABreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFaulty()
		c, other := newClient(t, e, holdfast.WithHooks(j)), newClient(t, e)
		l := mustLock(t, c.RWMutex("x").Lock, context.Background())
		time.Sleep(6 * time.Second)
		if err := other.Break(context.Background(), "x", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		j.want(t, "grant x 0 store", "break x rw 0", "lost x 0 broken")
		_ = l.Release(context.Background())
		_ = c.Close()
		j.want(t)
		if s := c.Stats(); s.Losses != (holdfast.Losses{Broken: 1}) {
			t.Errorf("after a break: %+v", s)
		}
		wantIdle(t, c)
	})
}

// A recall is reported once: of a lease that is kept, of one that its holder still uses, and of one that readers share.
func TestEventsOfARecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFaulty()
		c, other := newClient(t, e, holdfast.WithHooks(j)), newClient(t, e)
		subscribe(t, c)
		ctx := context.Background()
		synctest.Wait()
		j.lines = nil // of subscribe
		kept := c.Mutex("kept", holdfast.WithLinger(time.Second))
		mustRelease(t, mustLock(t, kept.Lock, ctx))
		mustRelease(t, mustLock(t, other.Mutex("kept").Lock, ctx))
		j.want(t, "grant kept 0 store", "release kept mutex 0 to linger", "recall kept mutex 0")

		used := mustLock(t, c.Mutex("used", holdfast.WithLinger(time.Second)).Lock, ctx)
		for range 2 {
			if _, err := other.Mutex("used").TryLock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) {
				t.Fatal(err)
			}
		}
		mustRelease(t, used)
		j.want(t, "grant used 0 store", "recall used mutex 0", "release used mutex 0 to store")

		rw := c.RWMutex("read")
		r1, r2 := mustLock(t, rw.RLock, ctx), mustLock(t, rw.RLock, ctx)
		go func() { mustRelease(t, mustLock(t, other.RWMutex("read").Lock, ctx)) }()
		time.Sleep(time.Millisecond)
		j.want(t, "grant read 0 store", "grant read 0 process", "recall read rw 0")
		mustRelease(t, r1)
		mustRelease(t, r2)
		j.want(t, "release read rw 0 to process", "release read rw 0 to store")
	})
}

func TestEventsOfAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFlaky()
		c := newClient(t, e, holdfast.WithHooks(j))
		m := c.Mutex("x", localOnly)
		e.out(hang)
		l := mustLock(t, m.Lock, context.Background())
		j.want(t, "fallback after 1s: unavailable", "grant x - fallback")
		waits := lockSoon(context.Background(), m.Lock)
		j.want(t, "wait x mutex 1 fallback, 0 ahead")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		mustNotLock(t, m.Lock, ctx, context.DeadlineExceeded)
		j.want(t, "wait x mutex 1 fallback, 1 ahead", "withdraw x mutex 1 fallback, 1 ahead, after 1s: deadline", "fail x canceled: deadline")
		if s := c.Stats(); s.FallbackLeases != 1 || s.WaitFallback != 1 || !s.FallsBack {
			t.Errorf("during a fallback: %+v", s)
		}
		mustRelease(t, l)
		j.sort() // the waiter reports its grant, the holder its release
		j.want(t, "grant x - fallback", "release x mutex - to fallback")
		e.out(nil)
		time.Sleep(5 * time.Second)
		j.want(t, "fallback over")
		mustRelease(t, wantGrant(t, waits).lease)
		j.want(t, "release x mutex - to fallback")
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
		j.want(t, "grant x 0 store", "release x mutex 0 to store")
		wantIdle(t, c)
	})
}

func TestEventsOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFaulty()
		c, other := newClient(t, e, holdfast.WithHooks(j)), newClient(t, e)
		foreign := mustLock(t, other.Mutex("x").Lock, context.Background())
		mustNotLock(t, c.Mutex("x").TryLock, context.Background(), holdfast.ErrNotAcquired)
		mustRelease(t, foreign)
		for range 2 {
			_, _ = c.Once(context.Background(), "y", time.Hour, func(context.Context) error { return nil })
		}
		e.All(down)
		mustNotLock(t, c.Mutex("x").TryLock, context.Background(), holdfast.ErrUnavailable)
		e.All(nil)
		j.want(t,
			"fail x busy: not acquired",
			"grant y 0 store", "release y job 0 to store", "fail y marked: not acquired",
			"fail x error: unavailable",
		)
		time.Sleep(time.Minute) // the request is withdrawn
		wantIdle(t, c)
	})
}

// Each lease that begins for hooks also ends for them: by a ticket, and by Close.
func TestEventsOfTicketsAndOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		e := newFlaky()
		c := newClient(t, e, holdfast.WithHooks(j))
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		j.want(t, "grant x 0 store", "release x mutex 0 to ticket")
		if l, err = c.Adopt(context.Background(), ticket); err != nil {
			t.Fatal(err)
		}
		j.want(t, "grant x 0 ticket")
		if s := c.Stats(); s.Leases != 1 {
			t.Errorf("after Adopt: %+v", s)
		}
		_ = c.Close()
		_ = l.Release(context.Background())
		j.want(t, "release x mutex 0 to close")
		wantIdle(t, c)

		c = newClient(t, e, holdfast.WithHooks(j))
		e.out(down)
		_ = mustLock(t, c.Mutex("x", failOpen).TryLock, context.Background())
		_ = c.Close() // which also ends the withdrawal of the request
		j.want(t, "grant x - fallback", "release x mutex - to fallback", "cleanup failed x -: canceled")
		wantIdle(t, c)
	})
}

// Without hooks, and with hooks for other events, a pair allocates as much as before.
func TestHooksThatAreNotSetAllocateNothing(t *testing.T) {
	pair := func(opts ...holdfast.Option) float64 {
		m := newClient(t, memory.New(), opts...).Mutex("x")
		return testing.AllocsPerRun(200, func() { mustRelease(t, mustLock(t, m.Lock, context.Background())) })
	}
	const today = 9
	if bare, hooked := pair(), pair(holdfast.WithHooks(onlyLost{})); bare > today || hooked > bare {
		t.Errorf("%v allocations a pair, and %v with a hook for losses; want %d at most", bare, hooked, today)
	}
}

// wantIdle checks that the client counts nothing that has ended.
func wantIdle(t *testing.T, c *holdfast.Client) {
	t.Helper()
	synctest.Wait()
	s := c.Stats()
	if s.Leases+s.FallbackLeases+s.WaitProcess+s.WaitStore+s.WaitFallback+s.LateRenewals+s.Releases != 0 || s.FallsBack {
		t.Errorf("left in the client: %+v", s)
	}
}

// A hook that ends its goroutine when a wait begins or ends, or a fallback does, leaves nothing
// behind, and the next caller gets in.
func TestHookEndsAWait(t *testing.T) {
	for _, sort := range []string{"wait", "withdraw", "fallback", "fallback over"} {
		for _, exit := range []bool{false, true} {
			if !exit && sort == "fallback over" {
				continue // it ends the program: a goroutine of the client sees that the store is back
			}
			t.Run(fmt.Sprintf("%s/exit=%v", sort, exit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &trap{sort: sort, n: 1, exit: exit}
					e := newFlaky()
					c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e)
					m := c.Mutex("x", localOnly)
					foreign := mustLock(t, other.Mutex("x").Lock, context.Background())
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					_ = isolated(func() { _, _ = m.Lock(ctx) })
					mustRelease(t, foreign)
					e.out(hang)
					_ = isolated(func() { _ = m.Do(context.Background(), func(context.Context) error { return nil }) })
					e.out(nil)
					time.Sleep(time.Minute)
					if !h.hit() {
						t.Error("the hook was not called")
					}
					mustRelease(t, mustLock(t, m.Lock, context.Background()))
					mustRelease(t, mustLock(t, other.Mutex("x").Lock, context.Background()))
					wantEmpty(t, e, "x")
					wantIdle(t, c)
				})
			})
		}
	}
}
