package enginetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// contextEndedBefore: a call whose ctx is over does nothing and says why.
func contextEndedBefore(s *scene) {
	why := errors.New("the caller went home")
	ctx, cancel := context.WithCancelCause(s.ctx)
	cancel(why)
	want := func(call string, err error) {
		s.Helper()
		if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, why) {
			s.Errorf("%s: got error %v, want ErrUnavailable and the cause", call, err)
		}
	}
	a, b := s.party("a"), s.party("b")
	_, err := s.engine.Acquire(ctx, a.request())
	want("Acquire", err)
	held := s.hold(once(b.request())) // nothing was done
	for _, err := range s.engine.Renew(ctx, []engine.Renewal{{Resource: s.res, Held: held, TTL: long}}) {
		want("Renew", err)
	}
	want("Release", s.engine.Release(ctx, engine.Release{Resource: s.res, Held: held}))
	want("Break", s.engine.Break(ctx, s.res, engine.Break{ID: held.ID}))
	_, err = s.engine.Snapshot(ctx, s.res)
	want("Snapshot", err)
	_, err = s.engine.Peek(ctx, s.res)
	want("Peek", err)
	for _, err := range s.engine.List(ctx, s.res.Prefix, "*") {
		want("List", err)
	}
	_, err = s.engine.Listen(ctx, s.res.Prefix, "client", func(engine.Wakeup) {})
	want("Listen", err)
	if err := s.renew(held, long); err != nil {
		s.Errorf("the lease was touched: %v", err)
	}
}

// contextEndsMeanwhile: whatever a call was doing when its ctx ended, it
// returns soon, and a withdrawal leaves nothing of it.
func contextEndsMeanwhile(s *scene) {
	a, b := s.party("a"), s.party("b")
	for i := range 50 {
		ctx, cancel := context.WithCancel(s.ctx)
		stop := time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
		r := a.request()
		start := time.Now()
		_, err := s.engine.Acquire(ctx, r)
		if took := time.Since(start); took > short {
			s.Errorf("Acquire returned after %v", took)
		}
		if err != nil && (!errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.Canceled)) {
			s.Errorf("got error %v, want ErrUnavailable and context.Canceled", err)
		}
		s.withdraw(r.ID)
		stop.Stop()
		cancel()
	}
	s.hold(once(b.request()))
}

// counterIsExact: parties add to a counter by reading, then writing.
func counterIsExact(s *scene) {
	const parties, turns = 8, 25
	var counter, lastToken int // guarded by the lease; -race sees a mistake
	var all sync.WaitGroup
	for range parties {
		p := s.party("p")
		all.Go(func() {
			for range turns {
				r := p.request()
				held, err := p.enter(r)
				if err != nil {
					s.Error(err)
					return
				}
				counter++
				if int(held.Token) <= lastToken {
					s.Errorf("token %d after %d", held.Token, lastToken)
				}
				lastToken = int(held.Token)
				if err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: held}); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if counter != parties*turns {
		s.Errorf("the counter is %d, want %d", counter, parties*turns)
	}
}

// enter takes a lease as a client does: request, wait for a wake-up, poll once in
// a while. It may run outside the test's goroutine.
func (p *party) enter(r engine.Request) (engine.Held, error) {
	for {
		a, err := p.engine.Acquire(p.ctx, r)
		if err != nil {
			return engine.Held{}, err
		}
		if a.Status == engine.Granted {
			return engine.Held{ID: r.ID, Token: a.Token}, nil
		}
		next := engine.PollInterval
		if a.Next > 0 {
			next = min(next, a.Next)
		}
		select {
		case <-p.wakes: // look again
		case <-time.After(next):
		}
	}
}
