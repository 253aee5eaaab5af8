package quorum

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// minGrace is the minimum time for the remaining nodes once a majority has answered, and
	// minDownGrace the same if all of them are down, in case they answer again.
	minGrace     = 100 * time.Millisecond
	minDownGrace = 10 * time.Millisecond
)

// errNotCalled is the result of a node that was not called.
var errNotCalled = fmt.Errorf("%w: it was not called, since it has not responded lately", engine.ErrUnavailable)

// callNodes calls nodes concurrently, of which need must answer. done receives the answers, in any
// order and concurrently. It receives errNotCalled for a node whose call waited in the outbox
// until the answer was no longer needed or the client left. A call continues after the caller's
// ctx has ended. Calls of a healthy node are bounded by the node's own timeouts, since a ctx that
// can end makes every call more expensive; a call of a node that is down by nodeTimeout.
func callNodes[T any](ctx context.Context, e *Engine, client string, to []*node, need int, do func(context.Context, *node) (T, error), done func(*node, T, error)) {
	e.dispatcher.send(client, to, need, nodeCall{
		ctx: context.WithoutCancel(ctx),
		run: func(ctx context.Context, c *nodeCall) {
			v, err := do(ctx, c.n)
			e.dispatcher.recordResult(c, err)
			done(c.n, v, err)
		},
		skip: func(n *node) {
			var none T
			done(n, none, errNotCalled)
		},
	})
}

// nodeReply is the answer of one node.
type nodeReply[T any] struct {
	node  *node
	value T
	err   error
}

// fanOut yields the answers of nodes one by one as they arrive. Answers that arrive after the
// last call of next are dropped.
type fanOut[T any] struct {
	ctx        context.Context
	e          *Engine
	sent       time.Time
	pending    int
	unanswered []*node // called, and not answered yet
	replies    chan nodeReply[T]
	timer      *time.Timer // for nodeTimeout, then for the grace period
	inGrace    bool
}

// newFanOut returns a fanOut for at most the given number of answers.
func newFanOut[T any](ctx context.Context, e *Engine, replies int) *fanOut[T] {
	return &fanOut[T]{ctx: ctx, e: e, sent: time.Now(), replies: make(chan nodeReply[T], replies), timer: time.NewTimer(nodeTimeout)}
}

// send calls nodes. notCalled, which may be nil, receives each node with errNotCalled.
func (p *fanOut[T]) send(client string, to []*node, do func(context.Context, *node) (T, error), notCalled func(*node)) {
	p.pending += len(to)
	p.unanswered = slices.Clone(to)
	callNodes(p.ctx, p.e, client, to, min(p.e.majority, len(to)), do, func(n *node, v T, err error) {
		if err == errNotCalled && notCalled != nil {
			notCalled(n)
		}
		p.replies <- nodeReply[T]{n, v, err}
	})
}

// next returns the next answer. It returns false if there is none, ctx has ended, or the timer has
// fired.
func (p *fanOut[T]) next() (nodeReply[T], bool) {
	if p.pending == 0 {
		return nodeReply[T]{}, false
	}
	select {
	case r := <-p.replies:
		p.pending--
		p.unanswered = slices.DeleteFunc(p.unanswered, func(n *node) bool { return n == r.node })
		return r, true
	case <-p.ctx.Done():
	case <-p.timer.C:
	}
	return nodeReply[T]{}, false
}

// startGrace limits the time of the remaining nodes to the grace period, once.
func (p *fanOut[T]) startGrace() {
	if !p.inGrace {
		p.inGrace = true
		p.timer.Reset(p.e.gracePeriod(p.unanswered, time.Since(p.sent)))
	}
}

// gracePeriod returns how long to wait for the remaining nodes after a majority has answered in
// the given time.
func (e *Engine) gracePeriod(others []*node, took time.Duration) time.Duration {
	if len(others) > 0 && e.allDown(others) {
		return max(minDownGrace, 3*took)
	}
	return max(minGrace, 3*took)
}

// collect returns the answers of at least a majority of the nodes, and of others that
// answer within the grace period.
func collect[T any](ctx context.Context, e *Engine, client, what string, do func(context.Context, *node) (T, error)) ([]T, error) {
	p := newFanOut[T](ctx, e, len(e.nodes))
	use, _ := e.selectNodes(e.majority)
	p.send(client, use, do, nil)
	var all []T
	t := e.majorityTally()
	for {
		r, ok := p.next()
		if !ok {
			break
		}
		if t.add(r.node, r.err); r.err == nil {
			all = append(all, r.value)
		}
		if t.confirmed() {
			p.startGrace()
		}
	}
	if !t.confirmed() {
		return nil, t.shortfall(ctx, what)
	}
	return all, nil
}
