package quorum

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// patience bounds how long nodes are waited for, and each call of one that is known
// not to answer.
const patience = 2 * time.Second

// Engine is a majority of nodes. It is safe for concurrent use.
type Engine struct {
	nodes    []*node
	majority int
	broken   error // why the engine cannot work; returned by every call

	attempts registry
	tokens   tokens
	lines    lines
	calls    calls
	turns    turns
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine over independent nodes: an odd number of them, usually 3 or
// 5; an even number works and tolerates no more failures than one node fewer. No node, a
// nil one, the same one twice, or one that reports an error by engine.Checker is an error
// of holdfast.New, and of every call. The nodes stay the caller's.
func New(nodes ...engine.Engine) *Engine {
	e := &Engine{majority: len(nodes)/2 + 1, broken: check(nodes)}
	for i, n := range nodes {
		e.nodes = append(e.nodes, &node{Engine: n, index: i})
	}
	e.calls = calls{nodes: e.nodes, clients: make(map[string]*client), jobs: make(chan *call, mostIdle)}
	return e
}

// Check implements engine.Checker.
func (e *Engine) Check() error { return e.broken }

func check(nodes []engine.Engine) error {
	if len(nodes) == 0 {
		return fmt.Errorf("%w: quorum: New was given no nodes", engine.ErrDenied)
	}
	for i, n := range nodes {
		if v := reflect.ValueOf(n); n == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("%w: quorum: node %d is nil", engine.ErrDenied, i+1)
		}
		if c, ok := n.(engine.Checker); ok {
			if err := c.Check(); err != nil {
				return fmt.Errorf("quorum: node %d: %w", i+1, err)
			}
		}
		if !reflect.TypeOf(n).Comparable() {
			continue
		}
		if first := slices.IndexFunc(nodes[:i], func(other engine.Engine) bool { return other == n }); first >= 0 {
			return fmt.Errorf("%w: quorum: nodes %d and %d are the same engine: one server has one vote", engine.ErrDenied, first+1, i+1)
		}
	}
	return nil
}

// usable tells why no call can be made.
func (e *Engine) usable(ctx context.Context) error {
	if e.broken != nil {
		return e.broken
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return nil
}

// ended says that a ctx is over, as an engine reports it.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %w: %w", engine.ErrUnavailable, ctx.Err(), cause)
}

func unavailable(err error) bool { return errors.Is(err, engine.ErrUnavailable) }

// Now implements engine.Engine: the middle one of the clocks of a majority, so that
// one wrong clock does not count.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := e.usable(ctx); err != nil {
		return time.Time{}, err
	}
	poll := begin(e, ctx, "", e.pick(e.majority), func(ctx context.Context, n *node) (time.Time, error) { return n.Now(ctx) })
	var clocks []time.Time
	for len(clocks) < e.majority {
		r, ok := poll.next()
		if !ok {
			return time.Time{}, poll.shortfall("read the clock", len(clocks))
		}
		if r.err == nil {
			clocks = append(clocks, r.value)
		}
	}
	slices.SortFunc(clocks, time.Time.Compare)
	return clocks[(len(clocks)-1)/2], nil
}
