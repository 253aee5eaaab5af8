package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// exclusionCheck checks that trust windows do not overlap and that tokens grow.
type exclusionCheck struct {
	t    *testing.T
	mu   sync.Mutex
	who  string
	end  time.Time
	last uint64
	n    int
}

func (w *exclusionCheck) enter(who string, token uint64, end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The memory engine counts in whole microseconds, so a lease may end up to one earlier.
	if time.Now().Add(time.Microsecond).Before(w.end) {
		w.t.Errorf("%s holds while %s has a window for %v more", who, w.who, time.Until(w.end))
	}
	if token <= w.last {
		w.t.Errorf("%s has token %d after %d", who, token, w.last)
	}
	w.who, w.end, w.last = who, end, token
	w.n++
}

func (w *exclusionCheck) extend(who string, end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.who != who {
		w.t.Errorf("%s renews, and %s has been granted since", who, w.who)
	}
	w.end = end
}

// leave closes a window; a holder does that before it releases.
func (w *exclusionCheck) leave(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.who == who {
		w.end = time.Time{}
	}
}

// Clients, each with a quorum of its own, contend while nodes stop, hang, refuse, lose replies and
// are slow, in minorities and majorities. Nodes keep their data. No seed shows two open windows, or
// a token that does not grow.
func TestRandomSchedules(t *testing.T) {
	grants := 0
	for seed := range uint64(28) {
		size := 3 + 2*int(seed%2)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { grants += schedule(t, seed, size) })
		})
	}
	if grants < 500 {
		t.Errorf("%d grants in all: the schedules hardly test anything", grants)
	}
}

func schedule(t *testing.T, seed uint64, size int) int {
	c := newCluster(size)
	w := &exclusionCheck{t: t}
	end := time.Now().Add(60 * time.Second)
	var all sync.WaitGroup
	for i, n := range c.nodes {
		r := rand.New(rand.NewPCG(seed, uint64(100+i)))
		all.Go(func() { n.failAtRandom(r, end) })
	}
	for i := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		var nodes []engine.Engine
		for _, n := range c.nodes {
			nodes = append(nodes, n)
		}
		p := &randomClient{r: r, truth: w, engine: quorum.New(nodes...), name: fmt.Sprintf("c%d", i)}
		all.Go(func() { p.play(end) })
	}
	all.Wait()
	for i := range 4 {
		c.wantNothingOf(t, fmt.Sprintf("c%d", i))
	}
	return w.n
}

// failAtRandom injects random faults into a node until end. The node is healthy half of the time,
// and afterwards.
func (f *faultyNode) failAtRandom(r *rand.Rand, end time.Time) {
	for time.Now().Before(end) {
		f.slow(time.Duration(r.IntN(5))*time.Millisecond, time.Duration(r.IntN(5))*time.Millisecond)
		f.set(healthy)
		<-time.After(time.Duration(r.IntN(3000)) * time.Millisecond)
		if r.IntN(2) == 0 {
			f.slow(time.Duration(r.IntN(1200))*time.Millisecond, time.Duration(r.IntN(1200))*time.Millisecond)
		} else {
			f.set([]fault{dead, hung, replyless, stopped}[r.IntN(4)])
		}
		<-time.After(time.Duration(r.IntN(3000)) * time.Millisecond)
	}
	f.slow(0, 0)
	f.set(healthy)
}

// randomClient is one client.
type randomClient struct {
	r      *rand.Rand
	truth  *exclusionCheck
	engine *quorum.Engine
	name   string
	tries  int
	wakes  chan engine.Wakeup
}

func (p *randomClient) play(end time.Time) {
	p.wakes = make(chan engine.Wakeup, 1)
	l, err := p.engine.Listen(context.Background(), stock.Prefix, p.name, func(w engine.Wakeup) {
		select {
		case p.wakes <- w:
		default:
		}
	})
	if err != nil {
		p.truth.t.Error(err)
		return
	}
	defer func() { _ = l.Close() }()
	for time.Now().Before(end) {
		p.tries++
		p.attempt(fmt.Sprintf("%s.%d", p.name, p.tries))
		<-time.After(time.Duration(p.r.IntN(200)) * time.Millisecond)
	}
	<-time.After(40 * time.Second) // until all leases have expired
	p.engine.Leave(p.name)
}

// attempt acquires and uses a lease, or withdraws.
func (p *randomClient) attempt(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(50+p.r.IntN(3000))*time.Millisecond)
	defer cancel()
	req := mutexRequest(id)
	req.TTL = time.Duration(200+p.r.IntN(2000)) * time.Millisecond
	req.Queue = true
	for ctx.Err() == nil {
		sent := time.Now()
		a, err := p.engine.Acquire(ctx, req)
		switch {
		case errors.Is(err, engine.ErrEnded):
			return
		case err != nil:
			<-time.After(time.Duration(p.r.IntN(50)) * time.Millisecond)
		case a.Status == engine.Granted && time.Now().Before(sent.Add(a.TTL)):
			p.truth.enter(id, a.Token, sent.Add(a.TTL))
			p.use(req, a.Token, sent.Add(a.TTL))
			return
		case a.Status == engine.Queued:
			poll := engine.PollInterval
			if a.Next > 0 {
				poll = min(poll, a.Next+time.Millisecond)
			}
			select {
			case <-p.wakes:
			case <-time.After(poll):
			case <-ctx.Done():
			}
		}
	}
	_ = p.engine.Release(context.Background(), engine.Release{Resource: stock, Held: engine.Held{ID: id}, Withdraw: true})
}

// use holds, renews, and ends the lease in one way or another.
func (p *randomClient) use(req engine.Request, token uint64, end time.Time) {
	held := engine.Held{ID: req.ID, Token: token}
	for p.r.IntN(4) > 0 {
		<-time.After(min(time.Until(end), time.Duration(p.r.IntN(800))*time.Millisecond))
		ctx, cancel := context.WithDeadline(context.Background(), end)
		sent := time.Now()
		err := p.engine.Renew(ctx, []engine.Renewal{{Resource: stock, Held: held, TTL: req.TTL}})[0]
		cancel()
		if !time.Now().Before(end) {
			return
		}
		if err == nil && sent.Add(req.TTL).After(end) {
			end = sent.Add(req.TTL)
			p.truth.extend(req.ID, end)
		}
		if _, ok := errors.AsType[*engine.NotHeldError](err); ok {
			return // before the window ends only if nodes lose data
		}
	}
	if p.r.IntN(5) == 0 {
		return // it dies
	}
	p.truth.leave(req.ID)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.r.IntN(1000))*time.Millisecond)
	defer cancel()
	_ = p.engine.Release(ctx, engine.Release{Resource: stock, Held: held, Withdraw: p.r.IntN(2) == 0})
}
