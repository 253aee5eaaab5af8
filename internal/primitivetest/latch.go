package primitivetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/random"
)

// latchProgram is a script of clients that set a latch, count down and wait.
type latchProgram []step

func drawLatch(t *random.T, least int) Script {
	return latchProgram(random.SliceOfN(random.Custom(func(t *random.T) step {
		s := drawStep(t)
		if s.Do == "lock" || s.Do == "try" || random.Bool().Draw(t, "acts") {
			s.Do = random.SampledFrom([]string{"set", "set", "down one", "down one", "down one", "wait", "wait", "count", "heal"}).Draw(t, "as")
		}
		s.Opts = random.SampledFrom([]string{"", "", "", "short"}).Draw(t, "life")
		return s
	}), least, 60).Draw(t, "program"))
}

// latchRun runs a latchProgram.
type latchRun struct {
	simulation
	long, short []*holdfast.Latch // with a long or a short TTL, by client; a handle keeps counts with unknown outcome
	tasks       atomic.Int64      // number of tasks; each of them counts down once, with retries
}

func (g *latchRun) latch(s step) *holdfast.Latch {
	if s.Opts == "short" {
		return g.short[s.Client]
	}
	return g.long[s.Client]
}

// round returns the token of the holder that has set the latch, or 0, and whether the
// count is complete.
func (g *latchRun) round() (token uint64, full bool) {
	s := g.snapshot("x")
	if len(s.Holders) == 0 || !strings.HasPrefix(s.Holders[0].Reason, "count ") {
		return 0, false
	}
	token = s.Holders[0].Token
	u := g.snapshot(fmt.Sprintf("x/latch/%d", token))
	return token, len(u.Holders) > 0 && len(u.Holders) == u.Capacity
}

// call makes a call and records a failure if its error is not one that faults cause.
func (g *latchRun) call(s step, do func(ctx context.Context) error) error {
	err := g.bounded(s, do)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !g.refused(err, s.Client, engine.ClaimWindow) {
		g.fail("%s: %v", s.Do, err)
	}
	return err
}

// wait calls Wait and checks that it returns only when the count is zero. It can check that
// only if the store had the same round before and after the call.
func (g *latchRun) wait(s step) {
	before, _ := g.round()
	err := g.call(s, g.latch(s).Wait)
	after, full := g.round()
	same := before != 0 && before == after
	switch {
	case err == nil && same && !full:
		g.fail("a wait returned, although the count is not zero")
	case errors.Is(err, holdfast.ErrLatchEnded) && same:
		g.fail("a wait ended, although the latch has not")
	}
}

// countDown runs a task, which counts down with retries.
func (g *latchRun) countDown(s step) {
	g.tasks.Add(1)
	for range 20 {
		if g.call(s, g.latch(s).CountDown) == nil {
			return
		}
	}
}

func (g *latchRun) do(s step) {
	g.Idle()
	switch s.Do {
	case "set":
		g.actors.Go(func() {
			_ = g.call(s, func(ctx context.Context) error { // a latch that another client has set is no error
				_, err := g.latch(s).TrySet(ctx, 1+int(s.Hold.Milliseconds()%4))
				return err
			})
		})
	case "down one":
		g.actors.Go(func() { g.countDown(s) })
	case "wait":
		g.actors.Go(func() { g.wait(s) })
	case "count":
		g.actors.Go(func() {
			_ = g.call(s, func(ctx context.Context) error { // the count may have changed since
				_, err := g.latch(s).Count(ctx)
				return err
			})
		})
	case "break holder", "break waiter":
		g.breakLease("x", s.Do == "break holder")
	default:
		g.setNetwork(s)
	}
	g.Idle()
	g.elapse(s.Sleep)
}

// checkCounts checks that no task was counted twice in a round.
func (g *latchRun) checkCounts() {
	for u, err := range g.Store.List(context.Background(), g.Prefix, "x/latch/*") {
		if n := int64(len(u.Holders)); err != nil || n > g.tasks.Load() {
			g.fail("%d counted by %d tasks (%v)", n, g.tasks.Load(), err)
		}
	}
}

// startWait calls Wait in the background; the channel receives its result.
func startWait(ctx context.Context, l *holdfast.Latch) <-chan waitResult {
	got := make(chan waitResult, 1)
	go func() {
		err := l.Wait(ctx)
		got <- waitResult{err, time.Now()}
	}()
	return got
}

type waitResult struct {
	err error
	at  time.Time
}

// finish counts the latch down to zero, and checks that all waits return soon after that and
// not before.
func (g *latchRun) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, l := range g.long { // without a clock of the store, each client times what it has seen
		if _, err := l.Count(ctx); err != nil {
			g.fail("at the end: %v", err)
		}
	}
	<-time.After(max(time.Second, g.span(10*time.Second))) // the short TTLs expire
	// This needs a new handle: the next CountDown of a handle repeats a count of the same
	// handle whose outcome is unknown.
	l := g.clients[0].Latch("x")
	if _, err := l.TrySet(ctx, 3); err != nil {
		g.fail("at the end: %v", err)
	}
	n, err := l.Count(ctx)
	if n == 0 || err != nil {
		g.fail("at the end: count %d, %v", n, err)
	}
	var waiters []<-chan waitResult
	for _, l := range g.long {
		waiters = append(waiters, startWait(ctx, l), startWait(ctx, l))
	}
	if !g.Eventually(func() bool { return len(g.snapshot("x").Waiters) == len(waiters) }) {
		g.fail("at the end: the store has %+v, not %d waiters", g.snapshot("x"), len(waiters))
	}
	g.countOnce(ctx, l, n)
	for left := n - 1; left > 0; left-- {
		for _, w := range waiters {
			if len(w) > 0 {
				g.fail("at the end: a wait ended early: %v", (<-w).err)
				return
			}
		}
		if left == 1 {
			g.nets[0].Set(func() { g.nets[0].OnRelease = func(ctx context.Context, _ engine.Release) error { return Down(ctx) } })
		}
		last, cancel := context.WithTimeout(ctx, max(time.Second, g.late()))
		if err := l.CountDown(last); err != nil {
			g.fail("at the end: %v", err)
		}
		cancel()
	}
	// The release after the last count was lost, so the other clients find the zero by polls.
	zero := time.Now()
	for i, w := range waiters {
		if i >= len(waiters)/len(g.long) { // of another client than 0
			g.checkReleased(w, zero)
		}
	}
	g.nets[0].All(nil)
	for _, w := range waiters[:len(waiters)/len(g.long)] {
		g.checkReleased(w, time.Now())
	}
}

// countOnce makes a CountDown whose answers are lost and a second CountDown, and checks that
// they count once.
func (g *latchRun) countOnce(ctx context.Context, l *holdfast.Latch, n int) {
	net := g.nets[0]
	net.Set(func() {
		net.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			a, err := net.Engine.Acquire(ctx, r)
			if strings.HasPrefix(r.Resource.Name, "x/latch/") && r.Ballot == 0 {
				return engine.Answer{}, Down(ctx)
			}
			return a, err
		}
	})
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := l.CountDown(short); err == nil {
		g.fail("at the end: a count without an answer is confirmed")
	}
	net.All(nil)
	if err := l.CountDown(ctx); err != nil {
		g.fail("at the end: %v", err)
	}
	if left, err := l.Count(ctx); left != n-1 || err != nil {
		g.fail("at the end: a count that was repeated makes %d of %d, %v", left, n, err)
	}
}

// checkReleased checks that a wait returns nil, and soon.
func (g *latchRun) checkReleased(w <-chan waitResult, zero time.Time) {
	if r := <-w; r.err != nil || r.at.Sub(zero) > 1100*time.Millisecond+g.late() {
		g.fail("at the end: %v after %v", r.err, r.at.Sub(zero))
	}
}

// Play checks that, whatever the network does, a wait returns when the count is zero and
// not before, a task counts once, and no call hangs.
func (p latchProgram) Play(s *Environment) []string {
	g := &latchRun{}
	g.openClients(s, 3)
	for _, c := range g.clients {
		g.long = append(g.long, c.Latch("x", holdfast.WithTTL(time.Hour)))
		g.short = append(g.short, c.Latch("x", s.ttl(2*time.Second)))
	}
	for _, st := range p {
		g.do(st)
		g.checkCounts()
	}
	g.healAll()
	g.actors.Wait()
	g.checkCounts()
	g.finish()
	return g.close("x")
}
