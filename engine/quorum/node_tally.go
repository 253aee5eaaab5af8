package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// tally counts the answers of nodes to one operation.
type tally struct {
	nodes, need   int
	confirmations int
	gone          []engine.Cause // reported by nodes that do not have the lease
	reason        string         // of a break, from the first node that reports one
	failures      []error        // other errors, with the number of the node
}

func (e *Engine) majorityTally() tally { return tally{nodes: len(e.nodes), need: e.majority} }

// add counts the answer of a node.
func (t *tally) add(n *node, err error) {
	var gone *engine.NotHeldError
	switch {
	case err == nil:
		t.confirmations++
	case errors.As(err, &gone):
		t.gone = append(t.gone, gone.Cause)
		t.reason = cmp.Or(t.reason, gone.Reason)
	default:
		t.failures = append(t.failures, fmt.Errorf("node %d: %w", n.index+1, err))
	}
}

// confirmed reports whether enough nodes have the lease.
func (t *tally) confirmed() bool { return t.confirmations >= t.need }

// lost reports whether too few nodes can have the lease.
func (t *tally) lost() bool { return len(t.gone) > t.nodes-t.need }

// removed reports whether so many nodes have ended the lease, or did not have it, that a majority
// does not have it.
func (t *tally) removed() bool { return t.confirmations+len(t.gone) >= t.need }

// final reports whether further answers cannot change the outcome. A lost lease is not final:
// the first answers may only report that the lease is gone, and later ones the cause.
func (t *tally) final() bool { return t.confirmed() || len(t.gone) == t.nodes }

// cause returns the cause that most nodes report, of those that have recorded one. If several
// are reported equally often, it returns the first.
func (t *tally) cause() *engine.NotHeldError {
	best, most := engine.CauseDeleted, 0
	if slices.Contains(t.gone, engine.CauseReleased) {
		best = engine.CauseReleased
	}
	counts := make(map[engine.Cause]int)
	for _, cause := range t.gone {
		counts[cause]++
	}
	for _, cause := range []engine.Cause{engine.CauseBroken, engine.CauseTaken, engine.CauseExpired} {
		if counts[cause] > most {
			best, most = cause, counts[cause]
		}
	}
	why := &engine.NotHeldError{Cause: best}
	if best == engine.CauseBroken {
		why.Reason = t.reason
	}
	return why
}

// outcome returns nil if enough nodes have confirmed the operation.
func (t *tally) outcome(ctx context.Context, what string) error {
	switch {
	case t.confirmed():
		return nil
	case t.lost():
		return t.cause()
	}
	return t.shortfall(ctx, what)
}

// shortfall returns the error of an operation that too few nodes have confirmed: how many
// have, and why the others have not. It matches ErrDenied if so many nodes deny permission that
// the others are too few.
func (t *tally) shortfall(ctx context.Context, what string) error {
	denied := 0
	texts := make([]string, 0, len(t.failures))
	for _, err := range t.failures {
		if errors.Is(err, engine.ErrDenied) {
			denied++
		}
		texts = append(texts, err.Error())
	}
	text := fmt.Sprintf("quorum: %d of %d nodes %s, %d are needed", t.confirmations, t.nodes, what, t.need)
	if len(texts) > 0 {
		text += " (" + strings.Join(texts, "; ") + ")"
	}
	switch {
	case denied > t.nodes-t.need:
		return fmt.Errorf("%w: %s", engine.ErrDenied, text)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %s", contextError(ctx), text)
	}
	return fmt.Errorf("%w: %s", engine.ErrUnavailable, text)
}
