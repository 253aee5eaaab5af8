package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// trap is a hook that ends the goroutine which calls it, once: at the n-th event
// of one sort, by a panic or by runtime.Goexit, as t.FailNow does.
type trap struct {
	sort string
	n    int
	exit bool

	mu     sync.Mutex
	seen   int
	sprung bool
}

var errTrap = errors.New("the hook panics")

func (h *trap) AcquireStart(context.Context, holdfast.AcquireStartEvent) { h.event("start") }
func (h *trap) AcquireEnd(context.Context, holdfast.AcquireEndEvent)     { h.event("end") }
func (h *trap) Renew(holdfast.RenewEvent)                                { h.event("renew") }
func (h *trap) Lost(*holdfast.LostError)                                 { h.event("lost") }
func (h *trap) Release(holdfast.ReleaseEvent)                            { h.event("release") }
func (h *trap) Wait(context.Context, holdfast.WaitEvent)                 { h.event("wait") }
func (h *trap) Withdraw(context.Context, holdfast.WithdrawEvent)         { h.event("withdraw") }
func (h *trap) FallbackStart(holdfast.FallbackStartEvent)                { h.event("fallback") }
func (h *trap) FallbackEnd(holdfast.FallbackEndEvent)                    { h.event("fallback over") }

func (h *trap) event(sort string) {
	h.mu.Lock()
	if sort == h.sort {
		h.seen++
	}
	hit := sort == h.sort && h.seen == h.n && !h.sprung
	h.sprung = h.sprung || hit
	h.mu.Unlock()
	switch {
	case hit && h.exit:
		runtime.Goexit()
	case hit:
		panic(errTrap)
	}
}

func (h *trap) hit() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sprung
}

// isolated runs f in a goroutine of its own and returns what it panicked with.
func isolated(f func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	return panicked
}

// use takes what a primitive gives, holds it for longer than a renewal takes to
// come, and gives it back. It returns an error if there is nothing to be had.
type use func(ctx context.Context, c *holdfast.Client) error

const heldFor = 20 * time.Second

func hold(l *holdfast.Lease, err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = l.Release(context.Background()) }()
	return work(l.Context())
}

// work takes its time, which is virtual.
func work(context.Context) error {
	<-time.After(heldFor)
	return nil
}

func uses() map[string]use {
	return map[string]use{
		"mutex":     func(ctx context.Context, c *holdfast.Client) error { return hold(c.Mutex("x").Lock(ctx)) },
		"try":       func(ctx context.Context, c *holdfast.Client) error { return hold(c.Mutex("x").TryLock(ctx)) },
		"do":        func(ctx context.Context, c *holdfast.Client) error { return c.Mutex("x").Do(ctx, work) },
		"semaphore": func(ctx context.Context, c *holdfast.Client) error { return c.Semaphore("x", 3).Do(ctx, 2, work) },
		"writer":    func(ctx context.Context, c *holdfast.Client) error { return hold(c.RWMutex("x").Lock(ctx)) },
		"reader":    func(ctx context.Context, c *holdfast.Client) error { return c.RWMutex("x").RDo(ctx, work) },
		"without tenure": func(ctx context.Context, c *holdfast.Client) error {
			return hold(c.Mutex("x", holdfast.WithoutTenure()).Lock(ctx))
		},
		"local only": func(ctx context.Context, c *holdfast.Client) error {
			return hold(c.Mutex("x", holdfast.WithFallback(holdfast.LocalOnly)).Lock(ctx))
		},
		"re-entry": func(ctx context.Context, c *holdfast.Client) error {
			m := c.Mutex("x", holdfast.WithReentrancy())
			return m.Do(ctx, func(ctx context.Context) error { return m.Do(ctx, work) })
		},
		"multi": func(ctx context.Context, c *holdfast.Client) error {
			return hold(c.Multi([]string{"x", "y", "z"}).Lock(ctx))
		},
		"multi try": func(ctx context.Context, c *holdfast.Client) error {
			return hold(c.Multi([]string{"x", "y", "z"}).TryLock(ctx))
		},
		"once": func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Once(ctx, "x", time.Hour, work)
			return err
		},
		"job": func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Job("x", holdfast.Every(time.Hour)).Run(ctx, work)
			return err
		},
		"campaign": func(ctx context.Context, c *holdfast.Client) error {
			return hold(c.Election("x").Campaign(ctx, "v"))
		},
		"lead": func(ctx context.Context, c *holdfast.Client) error {
			over := errors.New("over")
			err := c.Election("x").Lead(ctx, "v", func(ctx context.Context) error { return errors.Join(work(ctx), over) })
			if errors.Is(err, over) {
				return nil
			}
			return err
		},
		"cond": func(ctx context.Context, c *holdfast.Client) error {
			m := c.Mutex("x")
			l, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = l.Release(context.Background()) }()
			next, err := m.Cond("ready").Wait(ctx, l)
			return hold(next, err)
		},
	}
}

// A hook may panic, or end its goroutine, at any event of any primitive. Then
// nothing is left: no lease, no renewal, no goroutine, and the next caller, of this
// process or another, gets in at once.
func TestHookEndsItsGoroutine(t *testing.T) {
	for name, use := range uses() {
		for _, sort := range []string{"start", "end", "renew", "release"} {
			for n := 1; n <= 3; n++ {
				for _, exit := range []bool{false, true} {
					if sort == "renew" && !exit {
						continue // it ends the program: TestPanicInTheBackground
					}
					h := &trap{sort: sort, n: n, exit: exit}
					t.Run(fmt.Sprintf("%s/%s %d/exit=%v", name, sort, n, exit), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { useUnder(t, use, h) })
					})
				}
			}
		}
	}
}

func useUnder(t *testing.T, use use, h *trap) {
	e := newFaulty()
	c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e)
	panicked := isolated(func() {
		if err := use(context.Background(), c); err != nil {
			t.Errorf("use: %v", err)
		}
	})
	if !h.hit() {
		return // there are not so many events of this sort
	}
	if h.sort != "renew" && !h.exit && panicked != errTrap {
		t.Errorf("the caller got the panic %v; want that of the hook", panicked)
	}
	synctest.Wait()
	for s, err := range e.List(context.Background(), holdfast.DefaultPrefix, "*") {
		if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
			t.Errorf("left of %q: holders %v, waiters %v, error %v", s.Resource.Name, s.Holders, s.Waiters, err)
		}
	}
	renewals := e.Count("renew")
	time.Sleep(time.Minute)
	if n := e.Count("renew") - renewals; n > 0 {
		t.Errorf("%d renewals after the end", n)
	}
	for _, again := range []*holdfast.Client{c, other} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		if err := use(ctx, again); err != nil {
			t.Errorf("again: %v", err)
		}
		cancel()
	}
}

// The callers behind one whose hook panics get their turns at once.
func TestHookEndsItsGoroutineBeforeWaiters(t *testing.T) {
	for _, sort := range []string{"start", "end", "release", "wait"} {
		for _, exit := range []bool{false, true} {
			for n := 1; n <= 8; n++ {
				t.Run(fmt.Sprintf("%s %d/exit=%v", sort, n, exit), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						h := &trap{sort: sort, n: n, exit: exit}
						e := newFaulty()
						mine, other := newClient(t, e, holdfast.WithHooks(h)).Mutex("x"), newClient(t, e).Mutex("x")
						inside := 0 // guarded by the lock
						turn := func(m *holdfast.Mutex) {
							_ = isolated(func() {
								_ = m.Do(context.Background(), func(context.Context) error {
									inside++
									time.Sleep(3 * time.Millisecond)
									return nil
								})
							})
						}
						start := time.Now()
						var wg sync.WaitGroup
						for i := range 16 {
							m := mine
							if i%4 == 3 {
								m = other
							}
							wg.Go(func() { turn(m) })
							synctest.Wait()
						}
						wg.Wait()
						synctest.Wait()
						if inside < 15 || time.Since(start) > 48*time.Millisecond {
							t.Errorf("%d of 16 had a turn, in %v", inside, time.Since(start))
						}
						wantEmpty(t, e, "x")
					})
				})
			}
		}
	}
}

// A hook that ends the goroutine of a waiter which falls back leaves nothing in the queue of the local lock.
func TestHookEndsItsGoroutineAsItFallsBack(t *testing.T) {
	for _, exit := range []bool{false, true} {
		t.Run(fmt.Sprintf("exit=%v", exit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &trap{sort: "withdraw", n: 1, exit: exit}
				e := newFaulty()
				c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e.Engine)
				mustLock(t, other.Mutex("x").Lock, context.Background())
				m := c.Mutex("x", holdfast.WithFallback(holdfast.LocalOnly))
				ended := make(chan struct{})
				go func() {
					_ = isolated(func() { _, _ = m.Lock(context.Background()) })
					close(ended)
				}()
				synctest.Wait() // it waits in the store
				e.All(down)
				if <-ended; !h.hit() {
					t.Fatal("the waiter did not fall back")
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				mustRelease(t, mustLock(t, m.Lock, ctx))
			})
		})
	}
}

// The function of Do and the like may panic, or end its goroutine.
func TestWorkEndsItsGoroutine(t *testing.T) {
	for _, exit := range []bool{false, true} {
		fn := func(context.Context) error {
			if exit {
				runtime.Goexit()
			}
			panic(errTrap)
		}
		for name, run := range map[string]func(ctx context.Context, c *holdfast.Client){
			"mutex":     func(ctx context.Context, c *holdfast.Client) { _ = c.Mutex("x").Do(ctx, fn) },
			"writer":    func(ctx context.Context, c *holdfast.Client) { _ = c.RWMutex("x").Do(ctx, fn) },
			"reader":    func(ctx context.Context, c *holdfast.Client) { _ = c.RWMutex("x").RDo(ctx, fn) },
			"semaphore": func(ctx context.Context, c *holdfast.Client) { _ = c.Semaphore("x", 3).Do(ctx, 3, fn) },
			"multi":     func(ctx context.Context, c *holdfast.Client) { _ = c.Multi([]string{"x", "y"}).Do(ctx, fn) },
			"lead":      func(ctx context.Context, c *holdfast.Client) { _ = c.Election("x").Lead(ctx, "v", fn) },
			"once":      func(ctx context.Context, c *holdfast.Client) { _, _ = c.Once(ctx, "x", time.Hour, fn) },
		} {
			t.Run(fmt.Sprintf("%s/exit=%v", name, exit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					c := newClient(t, e)
					for range 2 {
						_ = isolated(func() { run(context.Background(), c) })
						synctest.Wait()
						wantEmpty(t, e, "x")
						wantEmpty(t, e, "y")
					}
					time.Sleep(time.Minute)
					if n := e.Count("renew"); n > 0 {
						t.Errorf("%d renewals", n)
					}
				})
			})
		}
	}
}

// If a hook ends its goroutine when one of many leases is lost, all losses are still
// reported.
func TestLostHookEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &trap{sort: "lost", n: 3, exit: true}
		e := newFaulty()
		c := newClient(t, e, holdfast.WithHooks(h))
		var leases []*holdfast.Lease
		for i := range 20 {
			leases = append(leases, mustLock(t, c.Mutex(fmt.Sprint(i), holdfast.WithTTL(time.Second)).Lock, context.Background()))
		}
		e.All(down)
		time.Sleep(2 * time.Second)
		for _, l := range leases {
			wantLost(t, l.Err(), holdfast.LostUnreachable)
		}
		e.All(nil)
		for i := range leases {
			mustRelease(t, mustLock(t, c.Mutex(fmt.Sprint(i), holdfast.WithTTL(time.Second)).Lock, context.Background()))
		}
		if synctest.Wait(); h.seen != 20 {
			t.Errorf("the hook was called for %d losses of 20", h.seen)
		}
	})
}

// An engine that panics, as what a user hangs into its driver may, costs no turn
// either. What the store made of the request is cleared up.
func TestEnginePanics(t *testing.T) {
	for _, op := range []string{"acquire", "acquire, done", "release", "release, done", "yield"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := newClient(t, e)
				m := c.Mutex("x")
				var l *holdfast.Lease
				var next <-chan result
				if !strings.HasPrefix(op, "acquire") {
					l = mustLock(t, m.Lock, context.Background())
				}
				if op == "yield" {
					next = lockSoon(context.Background(), m.Lock)
					time.Sleep(time.Second) // the slice is over
				}
				e.Set(func() {
					e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						e.All(nil)
						if op == "acquire, done" {
							_, _ = e.Engine.Acquire(ctx, r)
						}
						panic(errTrap)
					}
					e.OnRelease = func(ctx context.Context, r engine.Release) error {
						e.All(nil)
						if op == "release, done" {
							_ = e.Engine.Release(ctx, r)
						}
						panic(errTrap)
					}
				})
				panicked := isolated(func() {
					if l == nil {
						_, _ = m.Lock(context.Background())
					} else {
						_ = l.Release(context.Background())
					}
				})
				if panicked != errTrap {
					t.Errorf("the caller got the panic %v", panicked)
				}
				if next != nil {
					mustRelease(t, (<-next).lease)
				}
				synctest.Wait()
				wantEmpty(t, e, "x")
				mustRelease(t, mustLock(t, m.Lock, context.Background()))
				mustRelease(t, mustLock(t, newClient(t, e).Mutex("x").Lock, context.Background()))
				if time.Sleep(time.Minute); e.Count("renew") > 0 {
					t.Errorf("%d renewals", e.Count("renew"))
				}
			})
		})
	}
}

// A nil ctx makes a call panic before anything is done, so that Close does not wait for it, but Release takes it.
func TestNilContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var none context.Context
		h := &recorder{}
		e := newFaulty()
		c := newClient(t, e, holdfast.WithHooks(h))
		m := c.Mutex("x")
		for name, call := range map[string]func(){
			"Lock":     func() { _, _ = m.Lock(none) },
			"TryLock":  func() { _, _ = m.TryLock(none) },
			"Do":       func() { _ = m.Do(none, work) },
			"Multi":    func() { _, _ = c.Multi([]string{"x", "y"}).Lock(none) },
			"Acquire":  func() { _, _ = c.Semaphore("x", 2).Acquire(none, 1) },
			"Campaign": func() { _, _ = c.Election("x").Campaign(none, "v") },
			"Once":     func() { _, _ = c.Once(none, "x", time.Hour, work) },
			"Run":      func() { _, _ = c.Job("x", holdfast.Every(time.Hour)).Run(none, work) },
			"TrySet":   func() { _, _ = c.Latch("x").TrySet(none, 1) },
			"Wait":     func() { _ = c.Latch("x").Wait(none) },
		} {
			if isolated(call) == nil {
				t.Errorf("%s of a nil ctx did not panic", name)
			}
		}
		if n := e.Count("acquire") + len(h.started); n > 0 {
			t.Errorf("%d requests and events by calls with a nil ctx", n)
		}
		l := mustLock(t, m.Lock, context.Background())
		behind := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		for _, call := range []func(){
			func() { _, _ = l.Detach(none) },
			func() { _, _ = m.Cond("ready").Wait(none, l) },
		} {
			if isolated(call) == nil || l.Err() != nil {
				t.Errorf("a nil ctx under a lease: %v", l.Err())
			}
		}
		if err := l.Release(none); err != nil {
			t.Errorf("Release: %v", err)
		}
		mustRelease(t, (<-behind).lease)
		both := mustLock(t, c.Multi([]string{"x", "y"}).Lock, context.Background())
		if err := both.Release(none); err != nil {
			t.Errorf("Release: %v", err)
		}
		synctest.Wait()
		wantEmpty(t, e, "x")
		wantEmpty(t, e, "y")
		start := time.Now()
		if err := c.Close(); err != nil || time.Since(start) > 0 {
			t.Errorf("Close took %v: %v", time.Since(start), err)
		}
	})
}

// A panic of a hook in a goroutine of the client is not swallowed: it ends the
// program, as any other does.
func TestPanicInTheBackground(t *testing.T) {
	if os.Getenv("HOLDFAST_PANIC") != "" {
		c := newClient(t, memory.New(), holdfast.WithHooks(&trap{sort: "renew", n: 1}))
		for t.Context().Err() == nil { // until a lease outlives the stalls of the machine and is renewed
			l := mustLock(t, c.Mutex("x", holdfast.WithTTL(time.Second)).Lock, context.Background())
			<-l.Done()
			_ = l.Release(context.Background()) // it is lost
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPanicInTheBackground$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "HOLDFAST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: "+errTrap.Error()) {
		t.Errorf("the program ended with %v:\n%s", err, out)
	}
}
