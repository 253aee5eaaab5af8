package holdfast_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A writer among many readers that share leases waits for no longer than the longest read: the recall stops newcomers
// in every process.
func TestWriterWaitsForOneRead(t *testing.T) {
	const read = time.Millisecond
	for _, think := range []time.Duration{time.Nanosecond, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			e := memory.New()
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 8 {
				rw := newClient(t, e).RWMutex("x")
				for range 8 {
					all.Go(func() {
						for ctx.Err() == nil {
							_ = rw.RDo(ctx, func(context.Context) error {
								time.Sleep(read)
								return nil
							})
							time.Sleep(rand.N(think))
						}
					})
				}
			}
			w := newClient(t, e).RWMutex("x")
			for range 10 {
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				l := mustLock(t, w.Lock, ctx)
				if took := time.Since(start); took > read {
					t.Errorf("readers pause for up to %v: the writer waited for %v, they read for %v", think, took, read)
				}
				mustRelease(t, l)
			}
			stop()
			all.Wait()
		})
	}
}

// The first reader that joins another subscribes, so that the next grant of this process can be recalled. If only one
// that came too late to join did so, a process whose readers happen to come in time would let newcomers pass a writer
// for a quantum in each grant.
func TestFirstReaderThatJoinsSubscribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		rw := c.RWMutex("x")
		first := mustLock(t, rw.RLock, t.Context())
		synctest.Wait()
		if s := c.Stats().Subscription; s != holdfast.SubscriptionNone {
			t.Fatalf("one reader: %v", s)
		}
		second := mustLock(t, rw.RLock, t.Context())
		synctest.Wait()
		if s := c.Stats().Subscription; s != holdfast.SubscriptionLive {
			t.Errorf("after the second reader: %v, want a subscription", s)
		}
		mustRelease(t, first)
		mustRelease(t, second)
	})
}
