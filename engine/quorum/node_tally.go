package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// tally counts the answers of nodes to one operation.
type tally struct {
	nodes, need   int
	confirmations int
	gone          []*engine.NotHeldError // of nodes that do not have the lease
	failures      []error                // other errors, with the number of the node
}

func (e *Engine) majorityTally() tally { return tally{nodes: len(e.nodes), need: e.majority} }

// add counts the answer of a node.
func (t *tally) add(n *node, err error) {
	gone, ok := errors.AsType[*engine.NotHeldError](err)
	switch {
	case err == nil:
		t.confirmations++
	case ok:
		t.gone = append(t.gone, gone)
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

// cause returns the cause that most nodes report, of those that have recorded one; the first of
// those below if several are reported equally often. The reason of a break is that of most nodes,
// since one that a later break has not reached reports an earlier reason.
func (t *tally) cause() *engine.NotHeldError {
	why, most := &engine.NotHeldError{Cause: engine.CauseDeleted}, 0
	causes, reasons := make(map[engine.Cause]int), make(map[string]int)
	for _, gone := range t.gone {
		causes[gone.Cause]++
		if gone.Reason != "" {
			reasons[gone.Reason]++
		}
	}
	if causes[engine.CauseReleased] > 0 {
		why.Cause = engine.CauseReleased
	}
	for _, cause := range []engine.Cause{engine.CauseBroken, engine.CauseTaken, engine.CauseExpired} {
		if causes[cause] > most {
			why.Cause, most = cause, causes[cause]
		}
	}
	for _, gone := range t.gone {
		if why.Cause == engine.CauseBroken && reasons[gone.Reason] > reasons[why.Reason] {
			why.Reason = gone.Reason
		}
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
