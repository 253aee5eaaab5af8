package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// fan asks nodes at once, of which so many are needed. hear gets the answers, in any
// order and several at a time. One that was behind for so long that its answer is of no
// use is not asked, and gives errLeftOut; so do all when the client has left. A call
// outlives the caller's ctx. A node that answers is left to its own timeouts, since a ctx
// that can end makes every call dearer, and the caller does not wait for it; one that is
// away is given a while.
func fan[T any](ctx context.Context, e *Engine, client string, to []*node, need int, do func(context.Context, *node) (T, error), hear func(*node, T, error)) {
	e.calls.send(client, to, need, call{
		ctx: context.WithoutCancel(ctx),
		make: func(ctx context.Context, c *call) {
			v, err := do(ctx, c.n)
			e.calls.note(c, err)
			hear(c.n, v, err)
		},
		drop: func(n *node) {
			var none T
			hear(n, none, errLeftOut)
		},
	})
}

// errLeftOut stands for the answer of a node that was not asked.
var errLeftOut = fmt.Errorf("%w: it was not asked, having been silent of late", engine.ErrUnavailable)

// reply is what one node said.
type reply[T any] struct {
	node  *node
	value T
	err   error
}

// poll is the answers of nodes, one after the other as they come.
type poll[T any] struct {
	ctx     context.Context
	e       *Engine
	sent    time.Time
	pending int
	asked   []*node // that have not answered
	replies chan reply[T]
	over    *time.Timer // of patience, or of the grace
	hurried bool
	failed  []error
}

// begin asks nodes. What they answer after the last next goes nowhere.
func begin[T any](e *Engine, ctx context.Context, client string, to []*node, ask func(context.Context, *node) (T, error)) *poll[T] {
	p := open[T](e, ctx, len(to))
	p.ask(client, to, ask, func(*node) {})
	return p
}

// open makes a poll of so many nodes at the most.
func open[T any](e *Engine, ctx context.Context, nodes int) *poll[T] {
	return &poll[T]{ctx: ctx, e: e, sent: time.Now(), replies: make(chan reply[T], nodes), over: time.NewTimer(patience)}
}

// ask asks nodes, with something to do about those that were not asked in the end.
func (p *poll[T]) ask(client string, to []*node, ask func(context.Context, *node) (T, error), or func(*node)) {
	p.pending += len(to)
	p.asked = slices.Clone(to)
	fan(p.ctx, p.e, client, to, min(p.e.majority, len(to)), ask, func(n *node, v T, err error) {
		if err == errLeftOut {
			or(n)
		}
		p.replies <- reply[T]{n, v, err}
	})
}

// next returns the next answer; false when there is none any more, ctx has ended, or
// the time for it is over.
func (p *poll[T]) next() (reply[T], bool) {
	if p.pending == 0 {
		return reply[T]{}, false
	}
	select {
	case r := <-p.replies:
		p.pending--
		p.asked = slices.DeleteFunc(p.asked, func(n *node) bool { return n == r.node })
		if r.err != nil && (unavailable(r.err) || errors.Is(r.err, engine.ErrDenied)) {
			p.failed = append(p.failed, fmt.Errorf("node %d: %w", r.node.index+1, r.err))
		}
		return r, true
	case <-p.ctx.Done():
	case <-p.over.C:
	}
	return reply[T]{}, false
}

// hurry gives the remaining nodes a last while, since a majority has answered.
func (p *poll[T]) hurry() {
	if !p.hurried {
		p.hurried = true
		p.over.Reset(p.e.grace(p.asked, time.Since(p.sent)))
	}
}

// shortfall is the error of an operation that too few nodes have confirmed.
func (p *poll[T]) shortfall(what string, had int) error {
	return shortfall(p.ctx, len(p.e.nodes), what, had, p.e.majority, p.failed)
}

// shortfall says how many of some nodes did their part, and what became of others. It is
// ErrDenied if those that refuse are what prevents a majority.
func shortfall(ctx context.Context, nodes int, what string, had, need int, failed []error) error {
	denied := 0
	texts := make([]string, 0, len(failed))
	for _, err := range failed {
		if errors.Is(err, engine.ErrDenied) {
			denied++
		}
		texts = append(texts, err.Error())
	}
	told := ""
	if len(texts) > 0 {
		told = " (" + strings.Join(texts, "; ") + ")"
	}
	text := fmt.Sprintf("quorum: %d of %d nodes %s, %d are needed%s", had, nodes, what, need, told)
	switch {
	case denied > nodes-need:
		return fmt.Errorf("%w: %s", engine.ErrDenied, text)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s", ended(ctx), text)
	}
	return fmt.Errorf("%w: %s", engine.ErrUnavailable, text)
}

// grace is how much longer the others get when a majority answered so quickly. Nodes that
// are away get a moment, in case they answer again.
func (e *Engine) grace(others []*node, took time.Duration) time.Duration {
	if len(others) > 0 && e.away(others) {
		return max(moment, 3*took)
	}
	return max(100*time.Millisecond, 3*took)
}

// moment is how long an answer is waited for that is not expected.
const moment = 10 * time.Millisecond
