package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// fan asks nodes at once, each in a goroutine of the crew, which has been joined for
// them. Calls outlive the caller's ctx for as long as patience allows. hear gets the
// answers, in any order and several at a time.
func fan[T any](ctx context.Context, w *crew, to []*node, ask func(context.Context, *node) (T, error), hear func(*node, T, error)) {
	own, cancel := w.context(ctx)
	var left atomic.Int32
	left.Store(int32(len(to)))
	for _, n := range to {
		go func() {
			defer w.done()
			n.begin()
			v, err := ask(own, n)
			n.end(err)
			hear(n, v, err)
			if left.Add(-1) == 0 {
				cancel()
			}
		}()
	}
	if len(to) == 0 {
		cancel()
	}
}

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
	replies chan reply[T]
	grace   *time.Timer
	failed  []error
}

// begin asks nodes. What they answer after end goes nowhere.
func begin[T any](e *Engine, ctx context.Context, client string, to []*node, ask func(context.Context, *node) (T, error)) *poll[T] {
	p := &poll[T]{ctx: ctx, e: e, sent: time.Now(), pending: len(to), replies: make(chan reply[T], len(to))}
	fan(ctx, e.crews.join(client, len(to)), to, ask, func(n *node, v T, err error) {
		p.replies <- reply[T]{n, v, err}
	})
	return p
}

// next returns the next answer; false when there is none any more, ctx has ended, or
// the grace is over.
func (p *poll[T]) next() (reply[T], bool) {
	if p.pending == 0 {
		return reply[T]{}, false
	}
	var over <-chan time.Time
	if p.grace != nil {
		over = p.grace.C
	}
	select {
	case r := <-p.replies:
		p.pending--
		if r.err != nil && (unavailable(r.err) || errors.Is(r.err, engine.ErrDenied)) {
			p.failed = append(p.failed, fmt.Errorf("node %d: %w", r.node.index+1, r.err))
		}
		return r, true
	case <-p.ctx.Done():
	case <-over:
	}
	return reply[T]{}, false
}

// hurry gives the remaining nodes a last while, since a majority has answered.
func (p *poll[T]) hurry() {
	if p.grace == nil {
		p.grace = time.NewTimer(grace(time.Since(p.sent)))
	}
}

func (p *poll[T]) end() {
	if p.grace != nil {
		p.grace.Stop()
	}
}

// shortfall is the error of an operation that too few nodes have confirmed.
func (p *poll[T]) shortfall(what string, had int) error {
	return shortfall(p.ctx, p.e, what, had, p.e.majority, p.failed)
}

// shortfall says how many nodes did their part, and what became of others. It is
// ErrDenied if those that refuse are what prevents a majority.
func shortfall(ctx context.Context, e *Engine, what string, had, need int, failed []error) error {
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
	text := fmt.Sprintf("quorum: %d of %d nodes %s, %d are needed%s", had, len(e.nodes), what, need, told)
	switch {
	case denied > len(e.nodes)-need:
		return fmt.Errorf("%w: %s", engine.ErrDenied, text)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s", ended(ctx), text)
	}
	return fmt.Errorf("%w: %s", engine.ErrUnavailable, text)
}

// grace is how much longer the others get when a majority answered so quickly.
func grace(took time.Duration) time.Duration { return max(100*time.Millisecond, 3*took) }
