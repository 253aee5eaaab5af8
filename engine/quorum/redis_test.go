package quorum_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestConformanceOnRedis(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var nodes []engine.Engine
			for range n {
				nodes = append(nodes, goredis.New(redistest.Start(t).Client()))
			}
			shared := quorum.New(nodes...)
			warmUp(t, shared)
			enginetest.Run(t, func(testing.TB) engine.Engine { return shared }, enginetest.Unordered())
		})
	}
}

// warmUp opens connections for the many tests that begin at the same moment, some of
// them with a lease of a quarter of a second.
func warmUp(t *testing.T, e engine.Engine) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			r := mutexRequest(fmt.Sprintf("warm.%d", i))
			r.Resource.Name = r.ID
			a, err := e.Acquire(t.Context(), r)
			if err == nil {
				err = e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
