package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Count lets goroutines of each client count under a lock, so many turns each, and checks the sum. It calls
// inside, unless that is nil, in each turn. A second holder inside is found by the sum, and by the race detector.
func Count(t *testing.T, clients []*holdfast.Client, goroutines, turns int, inside func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	var done atomic.Int64
	counter := int64(0)
	for _, c := range clients {
		for range goroutines {
			all.Go(func() {
				for range turns {
					err := c.Mutex("counter").Do(ctx, func(context.Context) error {
						counter++
						if inside != nil {
							inside()
						}
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
	}
	all.Wait()
	if counter < done.Load() {
		redistest.Broken(t, "counted to %d in %d turns", counter, done.Load())
	}
}
