package quorum

import (
	"context"
	"fmt"
	"iter"
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

// none is the answer to a call that returns only an error.
type none struct{}

func withoutValue(do func(context.Context, *node) error) func(context.Context, *node) (none, error) {
	return func(ctx context.Context, n *node) (none, error) { return none{}, do(ctx, n) }
}

// nodeReply is the answer of one node.
type nodeReply[T any] struct {
	node  *node
	value T
	err   error
}

// fanOut is the answers of nodes to one operation.
type fanOut[T any] struct {
	ctx        context.Context
	e          *Engine
	sent       time.Time
	unanswered []*node
	replies    chan nodeReply[T]
	timer      *time.Timer // for nodeTimeout, then for the grace period
	inGrace    bool
}

func newFanOut[T any](ctx context.Context, e *Engine, of []*node) *fanOut[T] {
	return &fanOut[T]{ctx: ctx, e: e, sent: time.Now(), unanswered: slices.Clone(of), replies: make(chan nodeReply[T], len(e.nodes)), timer: time.NewTimer(nodeTimeout)}
}

// callNodes calls nodes concurrently, of which need must answer; see fanOut.send.
func callNodes[T any](ctx context.Context, e *Engine, client string, to []*node, need int, do func(context.Context, *node) (T, error), done func(*node, T, error)) *fanOut[T] {
	p := newFanOut[T](ctx, e, to)
	p.send(client, to, need, do, done)
	return p
}

// callUntilAnswered is callNodes, but a node that does not answer is called again in the
// background.
func callUntilAnswered(ctx context.Context, e *Engine, client string, to []*node, need int, do func(context.Context, *node) error) *fanOut[none] {
	return callNodes(ctx, e, client, to, need, withoutValue(do), func(n *node, _ none, err error) {
		if unavailable(err) {
			e.dispatcher.callInBackground(client, n, do, nil)
		}
	})
}

// send calls nodes. done, which may be nil, receives all answers, in any order and concurrently,
// also those that answers does not yield. The answer of a node is errNotCalled if it is down and
// the others suffice, if too many calls wait for it, or if its call waited in the outbox until the
// answer was no longer needed or the client left. A call continues after the caller's ctx has
// ended. Calls of a healthy node are bounded by the node's own timeouts, since a ctx that can end
// makes every call more expensive; a call of a node that is down by nodeTimeout.
func (p *fanOut[T]) send(client string, to []*node, need int, do func(context.Context, *node) (T, error), done func(*node, T, error)) {
	values := make([]T, len(p.e.nodes))
	p.e.dispatcher.send(client, to, need, nodeCall{
		ctx: context.WithoutCancel(p.ctx),
		do: func(ctx context.Context, n *node) (err error) {
			values[n.index], err = do(ctx, n)
			return err
		},
		done: func(n *node, err error) {
			if done != nil {
				done(n, values[n.index], err)
			}
			p.replies <- nodeReply[T]{n, values[n.index], err}
		},
	})
}

// answers yields the answers as they arrive, until all nodes have answered, ctx has ended, or the
// timer has fired.
func (p *fanOut[T]) answers() iter.Seq[nodeReply[T]] {
	return func(yield func(nodeReply[T]) bool) {
		for len(p.unanswered) > 0 {
			select {
			case r := <-p.replies:
				p.unanswered = slices.DeleteFunc(p.unanswered, func(n *node) bool { return n == r.node })
				if !yield(r) {
					return
				}
			case <-p.ctx.Done():
				return
			case <-p.timer.C:
				return
			}
		}
	}
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
	if len(others) > 0 && e.dispatcher.allDown(func(n *node) bool { return slices.Contains(others, n) }) {
		return max(minDownGrace, 3*took)
	}
	return max(minGrace, 3*took)
}

// collect returns the answers of at least a majority of the nodes, and of others that
// answer within the grace period.
func collect[T any](ctx context.Context, e *Engine, client, what string, do func(context.Context, *node) (T, error)) ([]T, error) {
	p := callNodes(ctx, e, client, e.nodes, e.majority, do, nil)
	var all []T
	t := e.majorityTally()
	for r := range p.answers() {
		if t.add(r.node, r.err); r.err == nil {
			all = append(all, r.value)
		}
		if t.confirmed() {
			p.startGrace()
		}
	}
	return all, t.outcome(ctx, what)
}
