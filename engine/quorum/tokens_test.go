package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// skewed is a node whose clock is ahead of the test's. Only the tokens of a store depend on its
// clock, so skewed shifts them.
type skewed struct {
	engine.Engine
	ahead time.Duration
}

func (n skewed) out(token uint64) uint64 {
	if token == 0 {
		return 0
	}
	return token + uint64(n.ahead.Microseconds())
}

func (n skewed) in(token uint64) uint64 {
	if token == 0 {
		return 0
	}
	return uint64(max(1, int64(token)-n.ahead.Microseconds()))
}

func (n skewed) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	r.Ballot, r.Yields.Token = n.in(r.Ballot), n.in(r.Yields.Token)
	a, err := n.Engine.Acquire(ctx, r)
	a.Token, a.Last, a.Holder.Token = n.out(a.Token), n.out(a.Last), n.out(a.Holder.Token)
	return a, err
}

func (n skewed) Renew(ctx context.Context, batch []engine.Renewal) []error {
	moved := make([]engine.Renewal, len(batch))
	for i, r := range batch {
		r.Token = n.in(r.Token)
		moved[i] = r
	}
	return n.Engine.Renew(ctx, moved)
}

func (n skewed) Release(ctx context.Context, r engine.Release) error {
	r.Token = n.in(r.Token)
	return n.Engine.Release(ctx, r)
}

// newSkewedCluster returns a quorum of nodes whose clocks are ahead.
func newSkewedCluster(ahead ...time.Duration) *cluster {
	c := newCluster(len(ahead))
	for i, n := range c.nodes {
		n.Engine = skewed{n.Engine, ahead[i]}
	}
	return c
}

// heal makes all nodes healthy, and waits until the quorum has seen it.
func (c *cluster) heal() {
	for _, n := range c.nodes {
		n.set(healthy)
	}
	for range 3 {
		<-time.After(2 * time.Second)
		_, _ = c.Now(context.Background())
	}
}

// The clocks of the nodes and of the client are further apart than the retention. With any one
// node hung, or dead, or none, a lease is granted within a second, and tokens grow.
func TestClocksApart(t *testing.T) {
	const hour = time.Hour
	for _, ahead := range [][]time.Duration{
		{hour, 0, -hour}, {hour, 0, 0}, {0, 0, -hour}, {hour, -hour, -hour}, {hour, hour, -hour},
		{11 * time.Minute, 11 * time.Minute, 11 * time.Minute}, // the client is behind
		{-hour, -hour, -hour}, {20 * hour, -3 * hour, 0},
	} {
		for _, what := range []fault{dead, hung} {
			synctest.Test(t, func(t *testing.T) {
				c := newSkewedCluster(ahead...)
				last := uint64(0)
				for n := range 4 * len(ahead) {
					node := c.nodes[n/2%len(ahead)]
					if n%2 == 0 {
						c.heal()
					} else {
						node.set(what)
					}
					start := time.Now()
					r := mutexRequest(fmt.Sprint("a.", n))
					r.Reserve = 15
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					a, err := c.Acquire(ctx, r)
					cancel()
					if err != nil || a.Status != engine.Granted || a.Token <= last {
						t.Fatalf("%v ahead, %d: got %+v, %v after %v; the last token is %d", ahead, n, a, err, time.Since(start), last)
					}
					last = a.Token + r.Reserve
					c.mustRelease(t, engine.Held{ID: r.ID, Token: a.Token})
					synctest.Wait() // the last node has it back as well
				}
				c.Leave("a")
				<-time.After(time.Minute)
			})
		}
	}
}

// A node refuses tokens more than a day ahead of it, and the error says so. One node with such a
// clock does not matter while the others are there.
func TestClocksTooFarApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSkewedCluster(25*time.Hour, 0, 0)
		c.nodes[2].set(dead)
		for n := range 3 {
			a, err := c.Acquire(t.Context(), mutexRequest(fmt.Sprint("a.", n)))
			if err == nil || !strings.Contains(err.Error(), engine.ErrBallot.Error()) {
				t.Errorf("got %+v, %v", a, err)
			}
			synctest.Wait() // what it had is taken back
		}
		c.heal()
		c.mustRelease(t, c.mustAcquire(t, "b.1"))
		c.Leave("a")
		<-time.After(time.Minute)
	})
	synctest.Test(t, func(t *testing.T) {
		c := newSkewedCluster(-25*time.Hour, -25*time.Hour, -25*time.Hour)
		if a, err := c.Acquire(t.Context(), mutexRequest("a.1")); !errors.Is(err, engine.ErrBallot) {
			t.Errorf("got %+v, %v", a, err)
		}
		c.Leave("a")
		<-time.After(time.Minute)
	})
}
