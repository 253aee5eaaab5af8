package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// Many clients count down at once. Their ballots, which are on the nodes for a moment, are not
// counted.
func TestLatchCountsExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 20
		c := newCluster(3)
		a := open(t, c)
		if set, err := a.Latch("parts").TrySet(t.Context(), parts); !set || err != nil {
			t.Fatal(set, err)
		}
		waited := make(chan error, 1)
		go func() { waited <- a.Latch("parts").Wait(t.Context()) }()
		time.Sleep(2 * time.Second)
		var all sync.WaitGroup
		for range parts - 1 {
			all.Go(func() {
				b := open(t, c)
				if err := b.Latch("parts").CountDown(t.Context()); err != nil {
					t.Error(err)
				}
				_ = b.Close()
			})
		}
		all.Wait()
		if n, err := a.Latch("parts").Count(t.Context()); n != 1 || err != nil {
			t.Errorf("the count is %d, %v; want 1", n, err)
		}
		select {
		case err := <-waited:
			t.Errorf("Wait ended before the count was zero: %v", err)
		case <-time.After(5 * time.Second):
		}
		if err := a.Latch("parts").CountDown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		_ = a.Close()
	})
}

// otherProcess is a quorum of another process on the same nodes.
func (c *cluster) otherProcess() *cluster {
	o := &cluster{}
	var all []engine.Engine
	for _, n := range c.nodes {
		f := &faultyNode{Engine: n.Engine}
		o.nodes = append(o.nodes, f)
		all = append(all, f)
	}
	o.Engine = quorum.New(all...)
	return o
}

// A process that is killed in CountDown leaves its ballot on some nodes; if it was killed while it
// extended its grant, with the full TTL on a few. The others continue, and the latch opens when all
// have counted, and not before.
func TestLatchCountsAfterAProcessWasKilled(t *testing.T) {
	const parts = 4
	for name, reached := range map[string][]fault{
		"one node":      {replyless, hung, hung},
		"all but one":   {replyless, hung, replyless},
		"all":           {replyless, replyless, replyless},
		"as it extends": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				a := open(t, c)
				defer a.Close()
				latch := a.Latch("parts")
				if set, err := latch.TrySet(t.Context(), parts); !set || err != nil {
					t.Fatal(set, err)
				}
				c.killCounters(t, parts, reached)
				start := time.Now()
				for left := parts; left > 0; left-- {
					if n, err := latch.Count(t.Context()); n != left || err != nil {
						t.Fatalf("the count is %d, %v; want %d", n, err, left)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if err := latch.CountDown(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if n, err := latch.Count(t.Context()); n != 0 || err != nil {
					t.Errorf("the count is %d, %v; want 0", n, err)
				}
				if d := time.Since(start); d > 2*engine.ClaimWindow {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}

// killCounters starts processes that count down, and kills them before they have an answer. The
// nodes may or may not have executed their requests.
func (c *cluster) killCounters(t *testing.T, parts int, reached []fault) {
	t.Helper()
	gate, err := c.Snapshot(t.Context(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "parts"})
	if err != nil {
		t.Fatal(err)
	}
	r := mutexRequest("dead.1")
	r.Resource = engine.Resource{Prefix: gate.Resource.Prefix, Name: fmt.Sprintf("parts/latch/%d", gate.Token)}
	r.Kind, r.Capacity, r.TTL = "latch-units", parts, 24*time.Hour
	for n := range parts {
		r.ID = fmt.Sprint("dead.", n)
		if reached == nil {
			r.ID += "~" + strconv.FormatUint(gate.Token+uint64(n), 36)
			if a, err := c.nodes[n%2].Engine.Acquire(t.Context(), r); err != nil || a.Status != engine.Granted {
				t.Fatal(a, err)
			}
			continue
		}
		killed := c.otherProcess()
		for i, f := range reached {
			killed.nodes[i].set(f)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := killed.Acquire(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
		for i := range reached {
			killed.nodes[i].set(hung)
		}
		killed.Leave("dead")
	}
}

// A caller with a given ballot repeats it when the nodes that were down are back: while the first
// calls, which end after ownTimeout, are still in flight, and at the moment at which they end.
func TestBallotOfTheCallerIsRepeated(t *testing.T) {
	for name, what := range map[string]fault{"dead": dead, "hung": hung, "replyless": replyless} {
		for _, pause := range []time.Duration{0, time.Second, ownTimeout - time.Second, ownTimeout} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { ballotAgain(t, what, pause) })
			})
		}
	}
}

func ballotAgain(t *testing.T, what fault, pause time.Duration) {
	c := newCluster(3)
	r := mutexRequest("a.1")
	r.Ballot = uint64(time.Now().UnixMicro())
	c.nodes[0].set(what)
	c.nodes[1].set(what)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Acquire(ctx, r); !errors.Is(err, engine.ErrUnavailable) {
		t.Fatal(err)
	}
	<-ctx.Done() // dead nodes refuse at once
	c.nodes[0].set(healthy)
	c.nodes[1].set(healthy)
	<-time.After(pause)
	if a, err := c.Acquire(t.Context(), r); err != nil || a.Status == engine.Busy {
		t.Errorf("got %+v, %v", a, err)
	}
	c.Leave("a")
	<-time.After(time.Minute) // all calls are over
}
