package quorumtest

import (
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// While two of five nodes hang, pair after pair, neither goroutines nor calls that wait for these nodes accumulate.
func TestPairsWhileAMinorityHangs(t *testing.T) {
	n := redistest.Scale(2_000, 20_000)
	g := startRedisNodes(t, 5)
	m := g.client().Mutex("hung")
	g.pairs(m, 100)
	g.servers[1].Pause()
	g.servers[3].Pause()
	g.pairs(m, n/2) // until the nodes are known not to answer
	goroutines, before := runtime.NumGoroutine(), heap()
	g.pairs(m, n)
	more, grown := runtime.NumGoroutine()-goroutines, heap()-before
	t.Logf("%d pairs: %d more goroutines, %d B more", n, more, grown)
	// The connections to these nodes, with 64 KB of buffers each, are made anew after their timeouts: now there are more, now fewer.
	if more > 20 || grown > 2_000_000 {
		t.Errorf("%d pairs: %d more goroutines, %d B more on the heap", n, more, grown)
	}
	g.servers[1].Resume()
	g.servers[3].Resume()
}

func heap() int {
	runtime.GC()
	runtime.GC() // also what pools keep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
