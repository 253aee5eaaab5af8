package gate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAClosedGateRefusesCalls(t *testing.T) {
	var g Gate
	if !g.Enter() {
		t.Fatal("an open gate refuses a call")
	}
	g.Leave()
	if !g.Close() {
		t.Error("the first Close reports that the gate was closed")
	}
	if g.Close() {
		t.Error("the second Close reports that the gate was open")
	}
	if g.Enter() {
		t.Error("a closed gate admits a call")
	}
}

// Cleanup goes on while the client closes, until nothing is left. Then nothing begins.
func TestCleanupIsAdmittedUntilTheGateIsDrained(t *testing.T) {
	var g Gate
	g.Enter()
	g.Close()
	if !g.JoinCleanup() {
		t.Fatal("cleanup of a call is refused while the call runs")
	}
	g.Leave()
	g.Leave()
	if !g.JoinCleanup() {
		t.Fatal("cleanup is refused before Wait has found the gate empty")
	}
	g.Leave()
	if !g.Wait(context.Background()) {
		t.Fatal("Wait returns false at an empty gate")
	}
	if g.JoinCleanup() {
		t.Fatal("a drained gate admits cleanup")
	}
	if !g.Wait(context.Background()) {
		t.Error("a second Wait returns false")
	}
}

func TestWaitEndsWithTheLastLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.Enter()
		g.Enter()
		g.Close()
		var waited atomic.Int32
		for range 2 {
			go func() {
				if g.Wait(context.Background()) {
					waited.Add(1)
				}
			}()
		}
		synctest.Wait()
		g.Leave()
		if g.Enter() { // counted in and out again
			t.Error("a closed gate admits a call")
		}
		synctest.Wait()
		if n := waited.Load(); n != 0 {
			t.Fatalf("%d waits ended while a call runs", n)
		}
		g.Leave()
		synctest.Wait()
		if n := waited.Load(); n != 2 {
			t.Errorf("%d of 2 waits ended with the last call", n)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.Enter()
		g.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		if g.Wait(ctx) {
			t.Error("Wait returns true while a call runs")
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("Wait returned after %v, its ctx ended after 1s", d)
		}
		if !g.JoinCleanup() {
			t.Error("a Wait that timed out drains the gate")
		}
		g.Leave()
		g.Leave()
		if !g.Wait(context.Background()) {
			t.Error("a later Wait returns false")
		}
	})
}

// Whatever the order of calls, Close and Wait: once Wait has returned, nothing is inside
// and nothing is admitted.
func TestNothingIsInsideADrainedGate(t *testing.T) {
	for range 300 {
		var g Gate
		var inside atomic.Int32
		var drained atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for g.Enter() {
					inside.Add(1)
					if !g.JoinCleanup() {
						t.Error("cleanup of a call is refused while the call runs")
					} else {
						g.Leave()
					}
					if drained.Load() {
						t.Error("a call is inside a drained gate")
					}
					inside.Add(-1)
					g.Leave()
				}
			})
		}
		g.Close()
		if !g.Wait(context.Background()) {
			t.Error("Wait returns false")
		}
		drained.Store(true)
		if n := inside.Load(); n != 0 {
			t.Errorf("%d calls are inside a drained gate", n)
		}
		if g.JoinCleanup() {
			t.Error("a drained gate admits cleanup")
		}
		wg.Wait()
	}
}
