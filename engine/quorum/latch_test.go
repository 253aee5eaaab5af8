package quorum_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Many count down at once: what they have on the
// nodes for a moment is not taken for counts.
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
