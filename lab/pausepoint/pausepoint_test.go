package pausepoint_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// A point is reported to the function of its engine, until that ends.
func TestPointsGoToTheWatcherOfTheEngine(t *testing.T) {
	var one, other int // their addresses stand for engines
	var reached []string
	end := pausepoint.Watch(&one, func(point string) { reached = append(reached, point) })
	if !pausepoint.Reach(&one, "a") || !pausepoint.Reach(&other, "b") {
		t.Error("Reach returned false: the condition that it is in would not hold")
	}
	end()
	pausepoint.Reach(&one, "c")
	if !slices.Equal(reached, []string{"a"}) {
		t.Errorf("reached %q, want a", reached)
	}
}
