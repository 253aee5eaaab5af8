package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// fault is a kind of failure of a node.
type fault uint8

const (
	healthy   fault = iota
	dead            // refuses at once; pending requests fail
	hung            // never answers, and does nothing
	replyless       // executes requests, and never answers
	stopped         // executes requests after it is resumed, as a stopped process does
)

// ownTimeout is the node's own timeout for a call whose ctx never ends.
const ownTimeout = 3 * time.Second

// faultyNode is a node that can be made to fail, and to be slow.
type faultyNode struct {
	engine.Engine
	mu         sync.Mutex
	fault      fault
	delayThere time.Duration // how long a request takes to arrive
	delayBack  time.Duration // how long an answer takes
	calls      int
	open       int // calls that have not returned
	mostOpen   int
	withdrawn  int
	resume     chan struct{} // while it is stopped; closed when it is resumed
}

var errDead = errors.New("connection refused")

func (f *faultyNode) set(what fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = what
	if f.resume != nil {
		close(f.resume)
		f.resume = nil
	}
	if what == stopped {
		f.resume = make(chan struct{})
	}
}

func (f *faultyNode) is(what fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault == what
}

func (f *faultyNode) slow(there, back time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delayThere, f.delayBack = there, back
}

func (f *faultyNode) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// callFaulty delays the request, executes it, and delays the answer. A request in transit is
// still executed if the caller's ctx ends.
func callFaulty[T any](ctx context.Context, f *faultyNode, do func(ctx context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	f.calls++
	f.open++
	f.mostOpen = max(f.mostOpen, f.open)
	what, there, back, resume := f.fault, f.delayThere, f.delayBack, f.resume
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}()
	type result struct {
		value T
		err   error
	}
	answered := make(chan result, 1)
	late := context.WithoutCancel(ctx)
	var none T
	switch {
	case what == dead:
		return none, fmt.Errorf("%w: %w", engine.ErrUnavailable, errDead)
	case what == hung:
	case what == replyless:
		_, _ = do(late)
	case there+back == 0 && resume == nil:
		return do(late)
	default:
		go func() {
			travel(there)
			if resume != nil {
				<-resume
			}
			if f.is(dead) {
				answered <- result{err: fmt.Errorf("%w: %w", engine.ErrUnavailable, errDead)}
				return
			}
			v, err := do(late)
			travel(back)
			answered <- result{v, err}
		}()
	}
	if ctx.Done() == nil {
		own, cancel := context.WithTimeout(ctx, ownTimeout)
		defer cancel()
		ctx = own
	}
	select {
	case r := <-answered:
		return r.value, r.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx))
	}
}

// inner returns the present engine, which a test may have replaced.
func (f *faultyNode) inner() engine.Engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Engine
}

func travel(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

type done struct{}

func (f *faultyNode) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	return callFaulty(ctx, f, func(ctx context.Context) (engine.Answer, error) { return f.inner().Acquire(ctx, r) })
}

func (f *faultyNode) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs, lost := callFaulty(ctx, f, func(ctx context.Context) ([]error, error) { return f.inner().Renew(ctx, batch), nil })
	if lost != nil {
		return slices.Repeat([]error{lost}, len(batch))
	}
	return errs
}

func (f *faultyNode) Release(ctx context.Context, r engine.Release) error {
	if r.Withdraw {
		f.mu.Lock()
		f.withdrawn++
		f.mu.Unlock()
	}
	_, err := callFaulty(ctx, f, func(ctx context.Context) (done, error) { return done{}, f.inner().Release(ctx, r) })
	return err
}

func (f *faultyNode) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	_, err := callFaulty(ctx, f, func(ctx context.Context) (done, error) { return done{}, f.inner().Resize(ctx, res, h, weight) })
	return err
}

func (f *faultyNode) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	return callFaulty(ctx, f, func(ctx context.Context) (engine.Snapshot, error) { return f.inner().Snapshot(ctx, res) })
}

func (f *faultyNode) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	return callFaulty(ctx, f, func(ctx context.Context) (engine.Brief, error) { return f.inner().Peek(ctx, res) })
}

func (f *faultyNode) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		_, lost := callFaulty(ctx, f, func(context.Context) (done, error) { return done{}, nil })
		if lost != nil {
			yield(engine.Snapshot{}, lost)
			return
		}
		f.inner().List(ctx, prefix, pattern)(yield)
	}
}

func (f *faultyNode) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	_, err := callFaulty(ctx, f, func(ctx context.Context) (done, error) { return done{}, f.inner().Break(ctx, res, b) })
	return err
}

func (f *faultyNode) Now(ctx context.Context) (time.Time, error) {
	return callFaulty(ctx, f, f.inner().Now)
}

func (f *faultyNode) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	return callFaulty(ctx, f, func(ctx context.Context) (engine.Listener, error) {
		return f.inner().Listen(ctx, prefix, client, deliver)
	})
}

// cluster is a quorum whose nodes can be made to fail.
type cluster struct {
	*quorum.Engine
	nodes []*faultyNode
}

func newCluster(n int) *cluster {
	c := &cluster{}
	var all []engine.Engine
	for _, m := range memories(n) {
		f := &faultyNode{Engine: m}
		c.nodes = append(c.nodes, f)
		all = append(all, f)
	}
	c.Engine = quorum.New(all...)
	return c
}

var stock = engine.Resource{Prefix: "test", Name: "stock:42"}

const long = 30 * time.Second

// mutexRequest is a request for the mutex of the tests.
func mutexRequest(id string) engine.Request {
	return engine.Request{
		Resource: stock, ID: id, Client: &engine.Client{ID: engine.ClientOf(id)},
		Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: long,
	}
}

func (c *cluster) mustAcquire(t *testing.T, id string) engine.Held {
	t.Helper()
	return c.mustGrant(t, mutexRequest(id))
}

func (c *cluster) mustGrant(t *testing.T, r engine.Request) engine.Held {
	t.Helper()
	a, err := c.Acquire(t.Context(), r)
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("got %+v, %v, want a grant", a, err)
	}
	return engine.Held{ID: r.ID, Token: a.Token}
}

func (c *cluster) mustRelease(t *testing.T, h engine.Held) {
	t.Helper()
	c.mustReleaseOf(t, stock, h)
}

func (c *cluster) mustReleaseOf(t *testing.T, res engine.Resource, h engine.Held) {
	t.Helper()
	if err := c.Release(t.Context(), engine.Release{Resource: res, Held: h}); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func (c *cluster) renew(t *testing.T, h engine.Held) error {
	t.Helper()
	return c.Renew(t.Context(), []engine.Renewal{{Resource: stock, Held: h, TTL: long}})[0]
}

// wantNothingOf checks that the nodes have neither a lease nor a waiter of a client.
func (c *cluster) wantNothingOf(t *testing.T, client string) {
	t.Helper()
	for i, n := range c.nodes {
		for s, err := range n.Engine.List(t.Context(), stock.Prefix, "*") {
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range s.Holders {
				if engine.ClientOf(h.ID) == client {
					t.Errorf("node %d still has %+v", i+1, h)
				}
			}
			for _, w := range s.Waiters {
				if engine.ClientOf(w.ID) == client {
					t.Errorf("node %d still has waiter %+v", i+1, w)
				}
			}
		}
	}
}

// occupy acquires the mutex for another client on some nodes.
func (c *cluster) occupy(t *testing.T, which func(i int) bool) {
	t.Helper()
	for i, n := range c.nodes {
		if which(i) {
			r := mutexRequest("other.1")
			if a, err := n.Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
				t.Fatalf("got %+v, %v", a, err)
			}
		}
	}
}
