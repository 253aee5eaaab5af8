package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// A node that the latest break has not reached answers first, with the reason of an earlier one.
func TestReasonOfMostNodesCounts(t *testing.T) {
	c := tally{nodes: 5, need: 3}
	for i, reason := range []string{"one", "", "two", "two"} {
		c.add(&node{index: i}, &engine.NotHeldError{Cause: engine.CauseBroken, Reason: reason})
	}
	c.add(&node{index: 4}, &engine.NotHeldError{Cause: engine.CauseDeleted})
	if got := c.cause(); got.Cause != engine.CauseBroken || got.Reason != "two" {
		t.Errorf("got %v, want broken for the later reason", got)
	}
}
