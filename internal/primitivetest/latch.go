package primitivetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// countdown is a program of clients that set a latch, count down and wait.
type countdown []step

func drawCountdown(t *rapid.T, least int) Script {
	return countdown(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := drawStep(t)
		if s.Do == "lock" || s.Do == "try" || rapid.Bool().Draw(t, "acts") {
			s.Do = rapid.SampledFrom([]string{"set", "set", "down one", "down one", "down one", "wait", "wait", "count", "heal"}).Draw(t, "as")
		}
		s.Opts = rapid.SampledFrom([]string{"", "", "", "short"}).Draw(t, "life")
		return s
	}), least, 60).Draw(t, "program"))
}

// pad is where a countdown is launched.
type pad struct {
	world
	long, short []*holdfast.Latch // one handle each a client, which remembers what is unsettled
	tasks       atomic.Int64      // each counts down once, however often it has to ask
}

func (g *pad) latch(s step) *holdfast.Latch {
	if s.Opts == "short" {
		return g.short[s.Client]
	}
	return g.long[s.Client]
}

// on returns the token of the holder that has set the latch, if there is one, and
// whether all has been counted.
func (g *pad) on() (token uint64, full bool) {
	s := g.snapshot("x")
	if len(s.Holders) == 0 || !strings.HasPrefix(s.Holders[0].Reason, "count ") {
		return 0, false
	}
	token = s.Holders[0].Token
	u := g.snapshot(fmt.Sprintf("x/latch/%d", token))
	return token, len(u.Holders) > 0 && len(u.Holders) == u.Capacity
}

// call is one with nothing but the errors of trouble.
func (g *pad) call(s step, do func(ctx context.Context) error) error {
	err := g.in(s, do)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !g.refused(err, s.Client, engine.ClaimWindow) {
		g.fail("%s: %v", s.Do, err)
	}
	return err
}

// wait checks that a wait goes on only when the count is zero, by what the store
// says of the round that was on before it and after it.
func (g *pad) wait(s step) {
	before, _ := g.on()
	err := g.call(s, g.latch(s).Wait)
	after, full := g.on()
	same := before != 0 && before == after
	switch {
	case err == nil && same && !full:
		g.fail("a wait went on, although the count is not zero")
	case errors.Is(err, holdfast.ErrLatchEnded) && same:
		g.fail("a wait ended, although the latch has not")
	}
}

// down is a task that counts down when it is done, and insists.
func (g *pad) down(s step) {
	g.tasks.Add(1)
	for range 20 {
		if g.call(s, g.latch(s).CountDown) == nil {
			return
		}
	}
}

func (g *pad) do(s step) {
	g.Rest()
	switch s.Do {
	case "set":
		g.actors.Go(func() {
			_ = g.call(s, func(ctx context.Context) error { // one that another set is no error
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
			_ = g.call(s, func(ctx context.Context) error { // any number may be true by now
				_, err := g.latch(s).Count(ctx)
				return err
			})
		})
	case "break holder", "break waiter":
		g.breaks("x", s.Do == "break holder")
	default:
		g.weather(s)
	}
	g.Rest()
	g.pass(s.Sleep)
}

// counted checks that nothing was counted twice in any round.
func (g *pad) counted() {
	for u, err := range g.Store.List(context.Background(), g.Prefix, "x/latch/*") {
		if n := int64(len(u.Holders)); err != nil || n > g.tasks.Load() {
			g.fail("%d counted by %d tasks (%v)", n, g.tasks.Load(), err)
		}
	}
}

// waitBeside starts a Wait and returns where its error and its time come.
func waitBeside(ctx context.Context, l *holdfast.Latch) <-chan waited {
	got := make(chan waited, 1)
	go func() {
		err := l.Wait(ctx)
		got <- waited{err, time.Now()}
	}()
	return got
}

type waited struct {
	err error
	at  time.Time
}

// end brings the latch to zero, and all who wait go on: not before, and soon.
func (g *pad) end() {
	<-time.After(max(time.Second, g.span(10*time.Second))) // the short ones are over
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// A handle of its own: a task that gave up may have left its count to the next
	// CountDown of its handle.
	l := g.clients[0].Latch("x")
	if _, err := l.TrySet(ctx, 3); err != nil {
		g.fail("at the end: %v", err)
	}
	n, err := l.Count(ctx)
	if n == 0 || err != nil {
		g.fail("at the end: count %d, %v", n, err)
	}
	var waiters []<-chan waited
	for _, l := range g.long {
		waiters = append(waiters, waitBeside(ctx, l), waitBeside(ctx, l))
	}
	if !g.Settle(func() bool { return len(g.snapshot("x").Waiters) == len(waiters) }) {
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
	// The one that made it zero could not tell the others: they look for themselves.
	zero := time.Now()
	for i, w := range waiters {
		if i >= len(waiters)/len(g.long) { // not on its client
			g.goesOn(w, zero)
		}
	}
	g.nets[0].All(nil)
	for _, w := range waiters[:len(waiters)/len(g.long)] {
		g.goesOn(w, time.Now())
	}
}

// countOnce counts down once, by a call whose answers get lost and another one.
func (g *pad) countOnce(ctx context.Context, l *holdfast.Latch, n int) {
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

// goesOn checks that a wait ends well and soon.
func (g *pad) goesOn(w <-chan waited, zero time.Time) {
	if r := <-w; r.err != nil || r.at.Sub(zero) > 1100*time.Millisecond+g.late() {
		g.fail("at the end: %v after %v", r.err, r.at.Sub(zero))
	}
}

// Play checks that a wait goes on when the count is zero and not before, whatever
// the network does, that a task counts once, and that nobody hangs.
func (p countdown) Play(s *Stage) []string {
	g := &pad{}
	g.enter(s, 3)
	for _, c := range g.clients {
		g.long = append(g.long, c.Latch("x", holdfast.WithTTL(time.Hour)))
		g.short = append(g.short, c.Latch("x", s.ttl(2*time.Second)))
	}
	for _, st := range p {
		g.do(st)
		g.counted()
	}
	g.heal()
	g.actors.Wait()
	g.counted()
	g.end()
	return g.close("x")
}
