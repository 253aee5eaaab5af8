package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// countdown runs random programs of clients that set a latch, count down and wait,
// each behind a network of its own: see world.
type countdown struct {
	world
	long, short []*holdfast.Latch // one handle each a client, which remembers what is unsettled
	tasks       atomic.Int64      // each counts down once, however often it has to ask
	opened      atomic.Int64      // waits that went on
}

func drawCountdown(t *rapid.T) step {
	s := drawStep(t)
	if s.Do == "lock" || s.Do == "try" || rapid.Bool().Draw(t, "acts") {
		s.Do = rapid.SampledFrom([]string{"set", "set", "down one", "down one", "down one", "wait", "wait", "count", "heal"}).Draw(t, "as")
	}
	s.Wait += rapid.SampledFrom([]time.Duration{0, 5 * time.Second, 30 * time.Second}).Draw(t, "patience")
	s.Opts = rapid.SampledFrom([]string{"", "", "", "short"}).Draw(t, "life")
	return s
}

func (g *countdown) latch(s step) *holdfast.Latch {
	if s.Opts == "short" {
		return g.short[s.Client]
	}
	return g.long[s.Client]
}

// on returns the holder that has set the latch, if there is one, and whether all
// has been counted.
func (g *countdown) on() (token uint64, full bool) {
	s := g.snapshot("x")
	if len(s.Holders) == 0 || !strings.HasPrefix(s.Holders[0].Reason, "count ") {
		return 0, false
	}
	token = s.Holders[0].Token
	u := g.snapshot(fmt.Sprintf("x/latch/%d", token))
	return token, len(u.Holders) > 0 && len(u.Holders) == u.Capacity
}

func (g *countdown) snapshot(name string) engine.Snapshot {
	s, err := g.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name})
	if err != nil {
		panic(err)
	}
	return s
}

func (g *countdown) failed(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail(format, args...)
}

// in makes a call that has to end in time, with nothing but the errors of trouble.
func (g *countdown) in(s step, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	start := time.Now()
	err := call(ctx)
	if late := time.Since(start) - s.Wait; late > 250*time.Millisecond {
		g.failed("%s returned %v after its ctx ended", s.Do, late)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, holdfast.ErrNotAcquired) {
		g.failed("%s: %v", s.Do, err)
	}
	return err
}

func (g *countdown) wait(s step) {
	before, _ := g.on()
	err := g.in(s, g.latch(s).Wait)
	after, full := g.on()
	same := before != 0 && before == after
	switch {
	case err == nil && same && !full:
		g.failed("a wait went on, although the count is not zero")
	case errors.Is(err, holdfast.ErrLatchEnded) && same:
		g.failed("a wait ended, although the latch has not")
	case err == nil && before != 0:
		g.opened.Add(1)
	}
}

// down is a task that counts down when it is done, and insists.
func (g *countdown) down(s step) {
	g.tasks.Add(1)
	for range 20 {
		if g.in(s, g.latch(s).CountDown) == nil {
			return
		}
	}
}

func (g *countdown) do(s step) {
	switch s.Do {
	case "set":
		g.actors.Go(func() {
			_ = g.in(s, func(ctx context.Context) error {
				_, err := g.latch(s).TrySet(ctx, 1+int(s.Hold.Milliseconds()%4))
				return err
			})
		})
	case "down one":
		g.actors.Go(func() { g.down(s) })
	case "wait":
		g.actors.Go(func() { g.wait(s) })
	case "count":
		g.actors.Go(func() {
			_ = g.in(s, func(ctx context.Context) error {
				_, err := g.latch(s).Count(ctx)
				return err
			})
		})
	default:
		g.world.do(s)
		return
	}
	synctest.Wait()
	time.Sleep(s.Sleep)
}

// counted checks that nothing was counted twice in any round.
func (g *countdown) counted() {
	for u, err := range g.store.List(context.Background(), holdfast.DefaultPrefix, "x/latch/*") {
		if n := int64(len(u.Holders)); err != nil || n > g.tasks.Load() {
			g.failed("%d counted by %d tasks (%v)", n, g.tasks.Load(), err)
		}
	}
}

// end brings the latch to zero, and all who wait go on.
func (g *countdown) end() {
	time.Sleep(10 * time.Second) // the short ones are over
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// A handle of its own: a task that gave up may have left its count to the next
	// CountDown of its handle.
	l := g.clients[0].Latch("x")
	if _, err := l.TrySet(ctx, 3); err != nil {
		g.failed("at the end: %v", err)
	}
	n, err := l.Count(ctx)
	if n == 0 || err != nil {
		g.failed("at the end: count %d, %v", n, err)
	}
	var waiters []<-chan waitOut
	for _, l := range g.long {
		waiters = append(waiters, waitLatch(ctx, l), waitLatch(ctx, l))
	}
	synctest.Wait()
	for range n {
		for _, w := range waiters {
			if len(w) > 0 {
				g.failed("at the end: a wait ended early: %v", <-w)
				return
			}
		}
		if err := l.CountDown(ctx); err != nil {
			g.failed("at the end: %v", err)
		}
	}
	zero := time.Now()
	for _, w := range waiters {
		if r := <-w; r.err != nil || r.at.Sub(zero) > 1100*time.Millisecond {
			g.failed("at the end: %v after %v", r.err, r.at.Sub(zero))
		}
	}
}

func runCountdown(program []step, opened *atomic.Int64) (faults []string) {
	g := &countdown{world: world{store: memory.New()}}
	for range 3 {
		net := newFaulty()
		net.Engine = g.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		g.nets, g.clients = append(g.nets, net), append(g.clients, c)
		g.long = append(g.long, c.Latch("x", holdfast.WithTTL(time.Hour)))
		g.short = append(g.short, c.Latch("x", holdfast.WithTTL(2*time.Second)))
	}
	for _, s := range program {
		g.do(s)
		g.counted()
	}
	for i := range g.nets {
		g.world.do(step{Do: "heal", Client: i})
	}
	g.actors.Wait()
	g.counted()
	g.end()
	for _, c := range g.clients {
		if err := c.Close(); err != nil {
			g.fail("Close: %v", err)
		}
	}
	time.Sleep(10 * time.Second) // what is still under way arrives
	synctest.Wait()
	if s := g.snapshot("x"); len(s.Holders)+len(s.Waiters) > 0 {
		g.fail("left in the store: %+v", s)
	}
	opened.Add(g.opened.Load())
	return g.faults
}

func TestLatchUnderRandomPrograms(t *testing.T) {
	var opened atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawCountdown), 10, 60).Draw(rt, "program")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = runCountdown(program, &opened) })
		if len(faults) > 0 {
			rt.Fatalf("%q", faults)
		}
	})
	t.Logf("%d waits went on", opened.Load())
}
