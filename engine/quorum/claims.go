package quorum

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// claim is what nodes answered to an operation on one lease.
type claim struct {
	nodes, need int
	yes         int
	other       int // could not be asked, or refused
	gone        []engine.Cause
	bad         []error // of the others, with the node's number
}

// hear takes in the answer of a node.
func (c *claim) hear(n *node, err error) {
	var gone *engine.NotHeldError
	switch {
	case err == nil:
		c.yes++
	case errors.As(err, &gone):
		c.gone = append(c.gone, gone.Cause)
	default:
		c.other++
		c.bad = append(c.bad, fmt.Errorf("node %d: %w", n.index+1, err))
	}
}

// held: enough nodes have it.
func (c *claim) held() bool { return c.yes >= c.need }

// lost: too few can have it.
func (c *claim) lost() bool { return len(c.gone) > c.nodes-c.need }

// sure tells whether no further answer is of interest. Of a lease that is lost the
// nodes that answer next may know more: one that was cleared up by the loss itself
// knows nothing of it, or takes it for given back.
func (c *claim) sure() bool { return c.held() || len(c.gone) == c.nodes }

// why is the cause that most nodes give, of those that know how the lease ended.
// Among equals the first counts.
func (c *claim) why() *engine.NotHeldError {
	best, most := engine.CauseDeleted, 0
	if slices.Contains(c.gone, engine.CauseReleased) {
		best = engine.CauseReleased
	}
	for _, cause := range []engine.Cause{engine.CauseBroken, engine.CauseTaken, engine.CauseExpired} {
		n := 0
		for _, said := range c.gone {
			if said == cause {
				n++
			}
		}
		if n > most {
			best, most = cause, n
		}
	}
	return &engine.NotHeldError{Cause: best}
}
