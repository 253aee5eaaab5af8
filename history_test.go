package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// events reads a whole history as lines.
func events(t *testing.T, c *holdfast.Client, q holdfast.HistoryQuery) string {
	t.Helper()
	var b strings.Builder
	for e, err := range c.History(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s %s waited %v held %v %s\n", e.Event, e.Resource, e.Kind, e.Waited, e.Held, e.Cause)
	}
	return b.String()
}

func newHistoryClient(t *testing.T, e engine.Engine, opts ...holdfast.Option) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(e, append(opts, holdfast.WithHistory(0), holdfast.WithName("shop"), holdfast.WithMeta(holdfast.Meta{Host: "node-17", PID: 42}))...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// after wants a history after some time.
func after(t *testing.T, c *holdfast.Client, d time.Duration, want string) {
	t.Helper()
	<-time.After(d)
	// Events of one instant are in any order.
	got, lines := strings.SplitAfter(events(t, c, holdfast.HistoryQuery{}), "\n"), strings.SplitAfter(want, "\n")
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("got:\n%q\nwant:\n%q", got, lines)
	}
}

func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newHistoryClient(t, e), newHistoryClient(t, e)
		defer c.Close()
		defer other.Close()
		began := time.Now()
		m := c.Mutex("stock:42")
		l, err := m.Lock(t.Context())
		must(t, err)
		after(t, c, time.Second, "granted stock:42 mutex waited 0s held 0s \n")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := other.Mutex("stock:42").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := other.Mutex("stock:42").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Fatal(err)
		}
		must(t, l.Release(t.Context()))
		must(t, m.Do(t.Context(), func(context.Context) error {
			<-time.After(50 * time.Millisecond)
			return nil
		}))
		l, err = c.Semaphore("pool", 5).Acquire(t.Context(), 3)
		must(t, err)
		<-time.After(10 * time.Millisecond)
		must(t, other.Break(t.Context(), "pool", l.HolderID(), holdfast.BreakReason("it hangs")))
		<-l.Done()
		after(t, c, time.Second, `granted stock:42 mutex waited 0s held 0s 
withdrawn stock:42 mutex waited 300ms held 0s context deadline exceeded
released stock:42 mutex waited 0s held 1.3s 
released stock:42 mutex waited 0s held 50ms 
broke pool  waited 0s held 0s break: it hangs
lost pool semaphore waited 0s held 10ms broken: it hangs
`)
		for e, err := range c.History(t.Context(), holdfast.HistoryQuery{Pattern: "stock:*", Since: began.Add(1310 * time.Millisecond)}) {
			must(t, err)
			if e.At.Sub(began).Round(time.Millisecond) != 1350*time.Millisecond || e.Name != "shop" || e.Client.Host != "node-17" || e.Client.PID != 42 || e.Weight != 1 || e.Token == 0 {
				t.Errorf("got %+v, want a release 1.35 s after the start", e)
			}
		}
		for e, err := range c.History(t.Context(), holdfast.HistoryQuery{Pattern: "pool"}) {
			must(t, err)
			if e.Event == holdfast.HistoryLost && e.Weight != 3 {
				t.Errorf("got %+v, want the weight of the grant", e)
			}
		}
	})
}

// Each of two readers that share a lease has its own wait and its own end.
func TestHistoryOfReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		writer, c := newClient(t, e), newHistoryClient(t, e)
		defer c.Close()
		subscribe(t, c)
		l := mustLock(t, writer.RWMutex("x").Lock, t.Context())
		var all sync.WaitGroup
		read := func(hold time.Duration) {
			all.Go(func() {
				l := mustLock(t, c.RWMutex("x").RLock, t.Context())
				<-time.After(hold)
				mustRelease(t, l)
			})
		}
		read(100 * time.Millisecond)
		<-time.After(30 * time.Millisecond)
		read(50 * time.Millisecond)
		<-time.After(30 * time.Millisecond)
		mustRelease(t, l)
		all.Wait()
		<-time.After(time.Second)
		var got []string
		for e, err := range c.History(t.Context(), holdfast.HistoryQuery{Pattern: "x"}) {
			must(t, err)
			got = append(got, fmt.Sprintf("%s waited %v held %v", e.Event, e.Waited.Round(10*time.Millisecond), e.Held.Round(10*time.Millisecond)))
		}
		if want := []string{"released waited 30ms held 50ms", "released waited 60ms held 100ms"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Close writes what was not written yet.
func TestHistoryAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, reader := newHistoryClient(t, e), newHistoryClient(t, e)
		defer reader.Close()
		for i := range 3 {
			_, err := c.Mutex(fmt.Sprint("r", i)).Lock(t.Context())
			must(t, err)
		}
		must(t, c.Close())
		if got := events(t, reader, holdfast.HistoryQuery{}); strings.Count(got, "released") != 3 {
			t.Errorf("got:\n%s", got)
		}
	})
}

// Follow yields events as they are written, until ctx ends.
func TestHistoryFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHistoryClient(t, memory.New())
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var seen []holdfast.HistoryEvent
		all.Go(func() {
			for e, err := range c.History(ctx, holdfast.HistoryQuery{Follow: true}) {
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, e)
			}
		})
		for range 3 {
			must(t, c.Mutex("a").Do(t.Context(), func(context.Context) error { return nil }))
			<-time.After(time.Second)
		}
		cancel()
		all.Wait()
		if len(seen) != 3 {
			t.Errorf("got %+v, want three events", seen)
		}
	})
}

// Close ends a reader that follows the history, also if its ctx never ends.
func TestHistoryFollowEndsWithTheClient(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("a ctx that ends: %v", ends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, ctx := memory.New(), context.Background()
				if ends {
					ctx = t.Context()
				}
				c, other := newHistoryClient(t, e), newHistoryClient(t, e)
				defer other.Close()
				first := make(chan error, 1)
				go func() {
					for _, err := range c.History(ctx, holdfast.HistoryQuery{Follow: true}) {
						first <- err
						return
					}
				}()
				time.Sleep(time.Minute)
				start := time.Now()
				must(t, c.Close())
				if took := time.Since(start); took > 0 {
					t.Errorf("Close took %v", took)
				}
				must(t, other.Mutex("a").Do(t.Context(), fine)) // an event, which ends a reader that still follows
				wantErr(t, <-first, holdfast.ErrClosed)
			})
		})
	}
}

// historyFails is an engine whose history cannot be written for a while.
type historyFails struct {
	*memory.Engine
	broken atomic.Bool // while AppendHistory fails
	twice  atomic.Bool // AppendHistory writes, and fails once
	calls  atomic.Int32
}

func (e *historyFails) AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error {
	e.calls.Add(1)
	if e.broken.Load() {
		return engine.ErrUnavailable
	}
	err := e.Engine.AppendHistory(ctx, prefix, keep, events)
	if e.twice.Swap(false) {
		return engine.ErrUnavailable
	}
	return err
}

// Locks go on while the history cannot be written. What is too much is counted, and what was written
// twice is read once.
func TestHistoryOverAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &historyFails{Engine: memory.New()}
		e.broken.Store(true)
		e.twice.Store(true)
		c := newHistoryClient(t, e)
		defer c.Close()
		for i := range 12_000 {
			l, err := c.Mutex(fmt.Sprint(i)).Lock(t.Context())
			must(t, err)
			must(t, l.Release(t.Context()))
			if i == 100 {
				<-time.After(time.Minute)
			}
		}
		if n := e.calls.Load(); n < 6 || n > 16 {
			t.Errorf("%d tries in a minute", n)
		}
		e.broken.Store(false)
		<-time.After(time.Minute)
		count := map[holdfast.HistoryKind]int{}
		dropped := 0
		for e, err := range c.History(t.Context(), holdfast.HistoryQuery{}) {
			must(t, err)
			count[e.Event]++
			dropped += e.Count
		}
		if kept := count[holdfast.HistoryReleased]; count[holdfast.HistoryDropped] != 1 || kept+dropped < 12_000 || kept < 9_900 {
			t.Errorf("%v, %d dropped", count, dropped)
		}
	})
}

// A store that never answers does not hold up Close for longer than it does anyway.
func TestHistoryDoesNotHoldUpClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHistoryClient(t, historyHangs{memory.New()})
		must(t, c.Mutex("a").Do(t.Context(), func(context.Context) error { return nil }))
		<-time.After(time.Second)
		began := time.Now()
		must(t, c.Close())
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

type historyHangs struct{ *memory.Engine }

func (historyHangs) AppendHistory(ctx context.Context, _ string, _ int, _ [][]byte) error {
	<-ctx.Done()
	return engine.ErrUnavailable
}

// deadEngine cannot acquire.
type deadEngine struct{ *memory.Engine }

func (deadEngine) Acquire(context.Context, engine.Request) (engine.Answer, error) {
	return engine.Answer{}, engine.ErrUnavailable
}

// Leases that were granted without the store are in the history when the client has closed.
func TestHistoryOfFallbacksAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, reader := newHistoryClient(t, deadEngine{e}), newHistoryClient(t, e)
		defer reader.Close()
		for i := range 20 {
			_, err := c.Mutex(fmt.Sprint(i), holdfast.WithFallback(holdfast.FailOpen)).TryLock(t.Context())
			must(t, err)
		}
		must(t, c.Close())
		if got := events(t, reader, holdfast.HistoryQuery{}); strings.Count(got, "released") != 20 {
			t.Errorf("got:\n%s", got)
		}
	})
}

// A release that finds the lease broken is a loss, a repeated Once is nothing, and a cause is cut.
func TestHistoryCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newHistoryClient(t, e)
		defer c.Close()
		l, err := c.Mutex("a").Lock(t.Context())
		must(t, err)
		must(t, e.Break(t.Context(), engine.Resource{Prefix: "holdfast", Name: "a"}, engine.Break{ID: l.HolderID(), Force: true, Reason: "a deploy"}))
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatal(err)
		}
		for range 3 {
			_, err := c.Once(t.Context(), "b", time.Hour, func(context.Context) error { return nil })
			must(t, err)
		}
		l, err = c.Mutex("c").Lock(t.Context())
		must(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New(strings.Repeat("é", 1000)))
		if _, err := c.Mutex("c").Lock(ctx); err == nil {
			t.Fatal("it was acquired")
		}
		must(t, l.Release(t.Context()))
		after(t, c, time.Second, "lost a mutex waited 0s held 0s broken: a deploy\nreleased b job waited 0s held 0s \n"+
			"withdrawn c mutex waited 0s held 0s "+strings.Repeat("é", 128)+"\nreleased c mutex waited 0s held 0s \n")
	})
}

// A lease that moves by a ticket is in the history of both clients.
func TestHistoryOfATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newHistoryClient(t, e), newHistoryClient(t, e)
		defer c.Close()
		defer other.Close()
		l, err := c.Mutex("a").Lock(t.Context())
		must(t, err)
		ticket, err := l.Detach(t.Context())
		must(t, err)
		_, err = other.Adopt(t.Context(), ticket)
		must(t, err)
		after(t, c, time.Second, "detached a mutex waited 0s held 0s \ngranted a mutex waited 0s held 0s adopted\n")
	})
}

// lateHistory is a node whose history cannot be read for some calls.
type lateHistory struct {
	*memory.Engine
	away atomic.Int32
}

func (e *lateHistory) History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]engine.HistoryRecord, error) {
	if e.away.Add(-1) >= 0 {
		return nil, engine.ErrUnavailable
	}
	return e.Engine.History(ctx, prefix, after, since, limit)
}

// Each event of a quorum is shown once, also when a node comes back after all was read.
func TestHistoryOfAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := &lateHistory{Engine: memory.New()}
		third.away.Store(20)
		q := quorum.New(memory.New(), memory.New(), third)
		for i := range 6000 {
			must(t, q.AppendHistory(t.Context(), "holdfast", 100_000, [][]byte{fmt.Appendf(nil, `{"event":"released","resource":"x","id":"w.%s"}`, strconv.FormatInt(int64(i+1), 36))}))
		}
		c := newHistoryClient(t, q)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		for _, err := range c.History(ctx, holdfast.HistoryQuery{Follow: true}) {
			must(t, err)
			n++
		}
		if n != 6000 || third.away.Load() >= 0 {
			t.Errorf("%d events, want 6000; the third node is away for %d calls more", n, third.away.Load())
		}
	})
}

// The newest events come first, across reads, and a reader may stop or say since when.
func TestHistoryNewestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newHistoryClient(t, e)
		defer c.Close()
		var since time.Time
		for i := range 1200 {
			if i == 1100 {
				since = time.Now()
			}
			must(t, c.Mutex(fmt.Sprint("r", i)).Do(t.Context(), func(context.Context) error { return nil }))
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Second)
		for _, test := range []struct {
			since time.Time
			want  int
		}{{time.Time{}, 1200}, {since, 100}} {
			next := 1199
			for e, err := range c.History(t.Context(), holdfast.HistoryQuery{Pattern: "r*", Newest: true, Since: test.since}) {
				must(t, err)
				if e.Event != holdfast.HistoryReleased {
					continue // a lease that was written while it was held
				}
				if e.Resource != fmt.Sprint("r", next) {
					t.Fatalf("got %s, want r%d", e.Resource, next)
				}
				next--
			}
			if got := 1199 - next; got != test.want {
				t.Errorf("since %v: %d events, want %d", test.since, got, test.want)
			}
		}
		for _, err := range c.History(t.Context(), holdfast.HistoryQuery{Newest: true, Follow: true}) {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("followed with the newest first: %v", err)
			}
		}
	})
}

func TestHistoryOptions(t *testing.T) {
	for _, keep := range []int{-1, 10_000_001} {
		if _, err := holdfast.New(memory.New(), holdfast.WithHistory(keep)); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%d events: %v", keep, err)
		}
	}
	plain := struct{ engine.Engine }{memory.New()}
	if _, err := holdfast.New(plain, holdfast.WithHistory(0)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("an engine without a history: %v", err)
	}
	if _, err := holdfast.New(quorum.New(plain, memory.New(), memory.New()), holdfast.WithHistory(0)); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("a quorum with a node without a history: %v", err)
	}
	c, err := holdfast.New(plain)
	must(t, err)
	defer c.Close()
	for _, err := range c.History(t.Context(), holdfast.HistoryQuery{}) {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("an engine without a history: %v", err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
