package holdfast

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// peeked is a store whose Peek returns an error; it records which resources it was for.
type peeked struct {
	engine.Engine

	mu  sync.Mutex
	err error
	of  []string
}

func (p *peeked) Peek(_ context.Context, r engine.Resource) (engine.Brief, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = append(p.of, r.Name)
	return engine.Brief{}, p.err
}

func (p *peeked) answer(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *peeked) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of
}

// silentStore returns a client of a store that does not answer.
func silentStore(t *testing.T) (*peeked, *Client) {
	t.Helper()
	p := &peeked{Engine: memory.New(), err: ErrUnavailable}
	c, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

func TestBreakerOpensAfterFallbackTimeoutOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := silentStore(t)
		b, x := &c.breaker, c.resource("x")
		if b.open(x) {
			t.Fatal("it is open from the start")
		}
		sent := time.Now()
		time.Sleep(FallbackTimeout - time.Millisecond)
		b.unanswered(sent, x, ErrUnavailable)
		if b.open(x) {
			t.Error("it opened before FallbackTimeout")
		}
		time.Sleep(time.Millisecond)
		b.unanswered(time.Now(), x, ErrUnavailable) // the silence counts from the first request
		if !b.open(x) {
			t.Error("it did not open after FallbackTimeout")
		}
	})
}

func TestAnAnswerEndsTheSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := silentStore(t)
		b, x := &c.breaker, c.resource("x")
		b.unanswered(time.Now(), x, ErrUnavailable)
		time.Sleep(FallbackTimeout / 2)
		b.answered()
		sent := time.Now()
		time.Sleep(FallbackTimeout / 2)
		b.unanswered(sent, x, ErrUnavailable)
		if b.open(x) {
			t.Error("it counts a silence from before an answer")
		}
	})
}

// Two failures that are far apart do not count as one silence, even if no request was sent
// between them.
func TestFailuresFarApartDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := silentStore(t)
		b, x := &c.breaker, c.resource("x")
		b.unanswered(time.Now(), x, ErrUnavailable)
		time.Sleep(breakerMemory + time.Millisecond)
		b.unanswered(time.Now(), x, ErrUnavailable)
		if b.open(x) {
			t.Error("two failures far apart opened it")
		}
		time.Sleep(FallbackTimeout)
		b.unanswered(time.Now(), x, ErrUnavailable)
		if !b.open(x) {
			t.Error("the second silence did not open it")
		}
	})
}

// tripNow opens the breaker.
func (b *breaker) tripNow(res engine.Resource) {
	b.unanswered(time.Now().Add(-FallbackTimeout), res, ErrUnavailable)
}

// While the breaker is open, the client reads the resource that was requested last, once in
// breakerPause, until the store answers.
func TestOpenBreakerProbesTheStore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer error
	}{{"it answers", nil}, {"it refuses", ErrDenied}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, c := silentStore(t)
				b := &c.breaker
				b.tripNow(c.resource("x"))
				b.tripNow(c.resource("x")) // one watch is enough
				time.Sleep(breakerPause + time.Millisecond)
				if got := p.seen(); len(got) != 1 || got[0] != "x" {
					t.Fatalf("it looked at %v, want x once", got)
				}
				if !b.open(c.resource("y")) {
					t.Fatal("it closed although the store did not answer")
				}
				p.answer(tt.answer)
				time.Sleep(breakerPause)
				if got := p.seen(); len(got) != 2 || got[1] != "y" {
					t.Errorf("it looked at %v, want y last", got)
				}
				if b.open(c.resource("y")) {
					t.Error("it is open although the store answered")
				}
				time.Sleep(time.Minute)
				if got := p.seen(); len(got) != 2 {
					t.Errorf("a closed breaker looked at %v", got)
				}
				p.answer(ErrUnavailable)
				b.tripNow(c.resource("z")) // opens once more
				time.Sleep(breakerPause + time.Millisecond)
				if got := p.seen(); len(got) != 3 || got[2] != "z" {
					t.Errorf("opened once more it looked at %v", got)
				}
			})
		})
	}
}

// A check that ends its goroutine, as a driver may that calls t.FailNow, is not the last one.
func TestOpenBreakerProbesTheStoreAfterAGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := silentStore(t)
		c.engine = &exits{peeked: p}
		p.answer(nil)
		c.breaker.tripNow(c.resource("x"))
		time.Sleep(2*breakerPause + time.Millisecond)
		if n := len(p.seen()); n != 2 || c.breaker.isOpen() {
			t.Errorf("open after %d checks: %v; want it closed by the second one", n, c.breaker.isOpen())
		}
	})
}

// exits is a store whose first Peek ends the goroutine.
type exits struct {
	*peeked
	first sync.Once
}

func (e *exits) Peek(ctx context.Context, r engine.Resource) (engine.Brief, error) {
	b, err := e.peeked.Peek(ctx, r)
	e.first.Do(runtime.Goexit)
	return b, err
}

// Close ends the watch: otherwise it would wait until its limit.
func TestCloseEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, c := silentStore(t)
		c.breaker.tripNow(c.resource("x"))
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Close took %v", d)
		}
		time.Sleep(time.Minute)
		if got := p.seen(); len(got) > 0 {
			t.Errorf("a closed client looked at %v", got)
		}
	})
}

func TestAClosedClientHasNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := silentStore(t)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		c.breaker.tripNow(c.resource("x"))
		if c.breaker.open(c.resource("x")) {
			t.Error("the breaker opened, and nothing would close it")
		}
	})
}
