package virtual

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// readTimeout is how long a caller without a deadline waits for a lost answer.
const readTimeout = 3 * time.Second

// link is the network between one process and one store, as an engine.
type link struct {
	p *process
	n *node

	own engine.Engine // on connections of this link; nil: the engine of the node is used

	mu     sync.Mutex
	rng    *rand.Rand
	faults map[Action]int // number of steps that have the fault on
	delay  time.Duration  // greatest delay of a message under Slow
	wires  map[*wire]bool // open connections
}

// engine returns the engine that executes requests, or nil while the store is away.
func (l *link) engine() engine.Engine {
	e := l.n.engine()
	if e != nil && l.own != nil {
		return l.own
	}
	return e
}

var _ engine.Engine = (*link)(nil)

// inject turns a fault on for the time of its step. After a fault that loses messages it
// sends a resync to the subscriptions of the process.
func (l *link) inject(s Step) {
	l.mu.Lock()
	l.faults[s.Do]++
	if s.Do == Slow {
		l.delay = s.Delay
	}
	l.mu.Unlock()
	if s.Do == Cut || s.Do == Hang {
		l.sever()
	}
	<-time.After(s.For)
	l.mu.Lock()
	l.faults[s.Do]--
	l.mu.Unlock()
	if s.Do == Cut || s.Do == Hang || s.Do == Deaf {
		l.n.mu.Lock()
		open := l.n.open()
		l.n.mu.Unlock()
		for _, s := range open {
			if s.l == l {
				s.again()
			}
		}
	}
}

// has reports whether one of the faults is on: it hits something then.
func (l *link) has(any ...Action) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range any {
		if l.faults[a] > 0 {
			l.n.hit(a)
			return true
		}
	}
	return false
}

// travel draws the delay of a message.
func (l *link) travel() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults[Slow] == 0 || l.delay == 0 {
		return 0
	}
	l.n.hit(Slow)
	return time.Duration(l.rng.Int64N(int64(l.delay)))
}

func unavailable(why string) error { return fmt.Errorf("%w: %s", engine.ErrUnavailable, why) }

// lost waits for ctx or the read timeout, and returns an error: the answer is lost.
func lost(ctx context.Context) error {
	t := time.NewTimer(readTimeout)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return unavailable(ctx.Err().Error())
	case <-t.C:
		return unavailable("read timeout")
	}
}

// reply is the result of a request.
type reply[T any] struct {
	value T
	err   error
}

// request sends a request through the link and waits for its answer. A request that was
// sent is executed even if its caller no longer waits.
func request[T any](ctx context.Context, l *link, op func(context.Context, engine.Engine) (T, error)) (T, error) {
	var none T
	if l.p.gate() != nil {
		return none, unavailable("the process is dead")
	}
	if ctx.Err() != nil {
		return none, unavailable(ctx.Err().Error())
	}
	if l.has(Cut) {
		return none, unavailable("connection refused")
	}
	if l.has(Hang) {
		err := lost(ctx)
		_ = l.p.gate()
		return none, err
	}
	there := l.travel()
	got := make(chan reply[T], 1)
	if there == 0 {
		got <- arrive(ctx, l, op)
	} else {
		wipes := l.n.wiped()
		go func() {
			<-time.After(there)
			if l.n.wiped() != wipes { // the store and its connections ended: a swap made from older data, with an older token, does not reach the empty one
				got <- reply[T]{err: unavailable("connection reset")}
				return
			}
			got <- arrive(context.WithoutCancel(ctx), l, op)
		}()
	}
	r := back(ctx, l, got)
	if l.p.gate() != nil {
		return none, unavailable("the process is dead")
	}
	return r.value, r.err
}

// arrive executes a request at the store.
func arrive[T any](ctx context.Context, l *link, op func(context.Context, engine.Engine) (T, error)) reply[T] {
	e := l.engine()
	if e == nil {
		return reply[T]{err: unavailable("connection reset")}
	}
	v, err := op(ctx, e)
	if l.has(Twice) {
		v, err = op(ctx, e)
	}
	return reply[T]{v, err}
}

// back waits for an answer, which the faults of the link may delay or lose.
func back[T any](ctx context.Context, l *link, got <-chan reply[T]) (r reply[T]) {
	select {
	case r = <-got:
	case <-ctx.Done():
		return reply[T]{err: unavailable(ctx.Err().Error())}
	}
	if l.has(Deaf, Hang) {
		return reply[T]{err: lost(ctx)}
	}
	if l.has(Cut) {
		return reply[T]{err: unavailable("connection reset")}
	}
	if d := l.travel(); d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return reply[T]{err: unavailable(ctx.Err().Error())}
		}
	}
	return r
}

// send and answer convert durations between the clocks of the process and the store,
// whose engine runs on the bubble's clock. At a rate above 1 the store's clock is faster,
// so a TTL that is sent ends earlier in the bubble, and a TTL that is returned reads longer.
func (l *link) send(d time.Duration) time.Duration   { return scale(d, 1/l.n.rate) }
func (l *link) answer(d time.Duration) time.Duration { return scale(d, l.n.rate) }

// scale multiplies a duration. A duration above zero stays above zero.
func scale(d time.Duration, by float64) time.Duration {
	if by == 1 || d == 0 {
		return d
	}
	return max(time.Microsecond, time.Duration(float64(d)*by).Truncate(time.Microsecond))
}

// Acquire implements engine.Engine.
func (l *link) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	l.p.ballots.note(r.ID)
	return request(ctx, l, func(ctx context.Context, e engine.Engine) (engine.Answer, error) {
		r := r
		r.TTL, r.Mark = l.send(r.TTL), l.send(r.Mark)
		r.Ballot, r.Yields.Token = l.n.inside(r.Ballot), l.n.inside(r.Yields.Token)
		a, err := e.Acquire(ctx, r)
		a.TTL, a.Next = l.answer(a.TTL), l.answer(a.Next)
		a.Token, a.Last, a.Holder.Token = l.n.outside(a.Token), l.n.outside(a.Last), l.n.outside(a.Holder.Token)
		return a, err
	})
}

// Renew implements engine.Engine.
func (l *link) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs, err := request(ctx, l, func(ctx context.Context, e engine.Engine) ([]error, error) {
		scaled := make([]engine.Renewal, len(batch))
		for i, r := range batch {
			r.TTL, r.Token = l.send(r.TTL), l.n.inside(r.Token)
			scaled[i] = r
		}
		return e.Renew(ctx, scaled), nil
	})
	if err == nil {
		return errs
	}
	errs = make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Release implements engine.Engine.
func (l *link) Release(ctx context.Context, r engine.Release) error {
	_, err := request(ctx, l, func(ctx context.Context, e engine.Engine) (struct{}, error) {
		r := r
		r.Mark, r.Token = l.send(r.Mark), l.n.inside(r.Token)
		return struct{}{}, e.Release(ctx, r)
	})
	return err
}

// Resize implements engine.Engine.
func (l *link) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	_, err := request(ctx, l, func(ctx context.Context, e engine.Engine) (struct{}, error) {
		return struct{}{}, e.Resize(ctx, res, engine.Held{ID: h.ID, Token: l.n.inside(h.Token)}, weight)
	})
	return err
}

// Snapshot implements engine.Engine.
func (l *link) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	return request(ctx, l, func(ctx context.Context, e engine.Engine) (engine.Snapshot, error) {
		s, err := e.Snapshot(ctx, res)
		s.Token = l.n.outside(s.Token)
		l.shown(s.Holders)
		return s, err
	})
}

// Peek implements engine.Engine.
func (l *link) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	return request(ctx, l, func(ctx context.Context, e engine.Engine) (engine.Brief, error) {
		b, err := e.Peek(ctx, res)
		b.Token = l.n.outside(b.Token)
		l.shown(b.Holders)
		return b, err
	})
}

// shown converts tokens and instants of holders from the store's clock to that of the processes.
func (l *link) shown(all []engine.Holder) {
	for i, h := range all {
		all[i].Token, all[i].Since = l.n.outside(h.Token), h.Since.Add(l.n.skew)
	}
}

// List implements engine.Engine. The lab does not list through links.
func (l *link) List(context.Context, string, string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) { yield(engine.Snapshot{}, unavailable("no list")) }
}

// Break implements engine.Engine.
func (l *link) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	_, err := request(ctx, l, func(ctx context.Context, e engine.Engine) (struct{}, error) {
		b := b
		b.Token = l.n.inside(b.Token)
		return struct{}{}, e.Break(ctx, res, b)
	})
	return err
}

// Now implements engine.Engine.
func (l *link) Now(ctx context.Context) (time.Time, error) {
	return request(ctx, l, func(ctx context.Context, e engine.Engine) (time.Time, error) {
		now, err := e.Now(ctx)
		return now.Add(l.n.skew), err
	})
}

// Leave implements engine.Engine. It frees what the engine keeps in the process, so no
// message is sent.
func (l *link) Leave(client string) {
	if l.own != nil {
		l.own.Leave(client)
	} else if e := l.n.engine(); e != nil {
		e.Leave(client)
	}
}
