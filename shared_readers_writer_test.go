package holdfast_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
