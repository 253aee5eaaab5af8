package quorum_test

import (
	"testing"
	"time"
)

// A minority hangs between the grant and the release, when the answers of some nodes
// are still on their way: nobody is told of a failure, and nothing waits for the nodes
// that hang. How slow the machine is itself is seen before each time: a node that is
// late is given three times what a majority took.
func TestMinorityOfRedisHangsAfterTheGrant(t *testing.T) {
	const (
		times   = 40
		longest = 500 * time.Millisecond // a quarter of what a silent node is given
	)
	g := newGrove(t, 5)
	m := g.client().Mutex("stock")
	var slowest, usual time.Duration
	for i := range times {
		for range 20 {
			start := time.Now()
			g.pairs(m, 1)
			usual = max(usual, time.Since(start))
		}
		l := g.lock(m)
		struck := time.Now()
		a, b := g.servers[i%5], g.servers[(i+1+i%4)%5]
		a.Pause()
		b.Pause()
		g.release(l)
		g.pairs(m, 2)
		slowest = max(slowest, time.Since(struck))
		a.Resume()
		b.Resume()
	}
	t.Logf("the slowest release and two pairs took %v, and the slowest pair with no node hung %v", slowest, usual)
	if slowest > longest+4*usual {
		t.Errorf("a release and two pairs took %v, and never did more than two of five nodes hang", slowest)
	}
}
