package live

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/stores"
)

// poolLoad is other work of a worker, which uses all connections of its pools.
type poolLoad struct {
	mu   sync.Mutex
	end  context.CancelFunc // nil: there is none
	busy sync.WaitGroup
}

// exhaust takes all connections, each as soon as it is free.
func (c *poolLoad) exhaust(pools []stores.Pool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	c.end = end
	for _, pool := range pools {
		for range pool.Size {
			c.busy.Go(func() { take(ctx, pool) })
		}
	}
}

// take holds one connection until ctx ends.
func take(ctx context.Context, pool stores.Pool) {
	for ctx.Err() == nil {
		if free, err := pool.Take(ctx); err == nil {
			<-ctx.Done()
			free()
		}
		again := time.NewTimer(5 * time.Millisecond)
		select {
		case <-again.C: // the store is away
		case <-ctx.Done():
			again.Stop()
		}
	}
}

// relieve returns all connections to the pools.
func (c *poolLoad) relieve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == nil {
		return
	}
	c.end()
	c.busy.Wait()
	c.end = nil
}
