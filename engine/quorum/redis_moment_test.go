package quorum_test

import (
	"testing"
	"time"
)

// A minority hangs between the grant and the release, when the answers of some nodes
// are still on their way: nobody is told of a failure, and nothing waits for the nodes
// that hang.
func TestMinorityOfRedisHangsAfterTheGrant(t *testing.T) {
	const (
		times   = 40
		longest = 500 * time.Millisecond // a quarter of what a silent node is given
	)
	g := newGrove(t, 5)
	m := g.client().Mutex("stock")
	for i := range times {
		g.pairs(m, 20)
		l := g.lock(m)
		struck := time.Now()
		a, b := g.servers[i%5], g.servers[(i+1+i%4)%5]
		a.Pause()
		b.Pause()
		g.release(l)
		g.pairs(m, 2)
		g.stalls.Within(t, struck, longest, "a release and two pairs while two of five nodes hang")
		a.Resume()
		b.Resume()
	}
}
