package quorum

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// nodeTimeout bounds how long an operation waits for nodes, and each call of a node that is down.
const nodeTimeout = 2 * time.Second

// Engine is a majority of nodes. It is safe for concurrent use.
type Engine struct {
	nodes    []*node
	majority int
	broken   error // from checkNodes; returned by every call

	attempts    attempts
	tokens      tokens
	localQueues localQueues
	dispatcher  dispatcher
	spreader    spreader
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine over independent nodes: an odd number of them, usually 3 or
// 5; an even number works and tolerates no more failures than one node fewer. If there
// is no node, one is nil or given twice, or engine.Checker reports an error for one,
// holdfast.New and every call return an error. The caller closes the nodes.
func New(nodes ...engine.Engine) *Engine {
	e := &Engine{majority: len(nodes)/2 + 1, broken: checkNodes(nodes)}
	for i, n := range nodes {
		e.nodes = append(e.nodes, &node{Engine: n, index: i})
	}
	e.attempts = attempts{all: make(map[attemptKey]*attemptState), tombstones: tombstones{seed: maphash.MakeSeed(), causes: make(map[uint64]engine.Cause)}}
	e.tokens.last = make(map[engine.Resource]uint64)
	e.localQueues.all = make(map[engine.Resource][]*attemptState)
	e.dispatcher = dispatcher{nodes: e.nodes, clients: make(map[string]*clientCalls), work: make(chan *nodeCall, maxIdleWorkers)}
	return e
}

// Check implements engine.Checker.
func (e *Engine) Check() error { return e.broken }

func checkNodes(nodes []engine.Engine) error {
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

// ready returns an error if no call can be made.
func (e *Engine) ready(ctx context.Context) error {
	if e.broken != nil {
		return e.broken
	}
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	return nil
}

// contextError returns the error of an engine for the end of a ctx.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, cause)
	}
	return fmt.Errorf("%w: %w: %w", engine.ErrUnavailable, ctx.Err(), cause)
}

func unavailable(err error) bool { return errors.Is(err, engine.ErrUnavailable) }

// Now implements engine.Engine. It returns the median of the clocks of the nodes that answer. So
// one wrong clock has no effect, unless other nodes do not answer.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := e.ready(ctx); err != nil {
		return time.Time{}, err
	}
	clocks, err := collect(ctx, e, "", "read the clock", func(ctx context.Context, n *node) (time.Time, error) { return n.Now(ctx) })
	if err != nil {
		return time.Time{}, err
	}
	slices.SortFunc(clocks, time.Time.Compare)
	return clocks[(len(clocks)-1)/2], nil
}
