package quorum_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

func TestConformance(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			shared := quorum.New(memories(size)...)
			enginetest.Run(t, func(testing.TB) engine.Engine { return shared }, enginetest.Unordered())
		})
	}
}

// memories are nodes of which each has its own memory.
func memories(n int) []engine.Engine {
	var all []engine.Engine
	for range n {
		all = append(all, memory.New())
	}
	return all
}
