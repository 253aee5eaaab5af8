package cas_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// What a process remembers of a resource, and the cost of using it, does not grow with the clients
// that have used it before.
func TestClientsThatLeftCostNothing(t *testing.T) {
	e := cas.New(castest.NewMemory(), 0)
	pairs := func(name string, n int) (bytes uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range n {
			r := request(fmt.Sprintf("%s%d.1", name, i), time.Minute, false)
			release(t, e, r, acquire(t, e, r, engine.Granted).Token)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	few := pairs("a", 100)
	pairs("b", 1000)
	if many := pairs("c", 100); many > 3*few {
		t.Errorf("%d bytes a pair after a thousand clients, %d before", many, few)
	}
}
