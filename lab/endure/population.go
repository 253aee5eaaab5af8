package endure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// population is leases that one process holds and renews throughout a run: mutexes, readers, and parts of semaphores.
type population struct {
	c      *holdfast.Client
	name   string
	leases []*holdfast.Lease
}

// populationTTL is long enough for a failover.
const populationTTL = 15 * time.Second

func newPopulation(c *holdfast.Client, name string, n int) *population {
	return &population{c, name, make([]*holdfast.Lease, n)}
}

// fillers is how many leases are acquired at once.
const fillers = 16

// fill acquires the leases that are missing or were lost.
func (p *population) fill() error {
	ctx := context.Background() // contexts of leases are made of it
	var wg sync.WaitGroup
	errs := make([]error, fillers)
	for f := range fillers {
		wg.Go(func() {
			for i := f; i < len(p.leases) && errs[f] == nil; i += fillers {
				if l := p.leases[i]; l == nil || l.Err() != nil {
					p.leases[i], errs[f] = p.take(ctx, i)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// take acquires lease i. Every tenth is a reader's, and every tenth one of a semaphore.
func (p *population) take(ctx context.Context, i int) (*holdfast.Lease, error) {
	name, ttl := fmt.Sprintf("steady:%s:%d", p.name, i), holdfast.WithTTL(populationTTL)
	switch i % 10 {
	case 0:
		return p.c.RWMutex(name, ttl).RLock(ctx)
	case 1:
		return p.c.Semaphore(name, 3, ttl).Acquire(ctx, 2)
	}
	l, err := p.c.Mutex(name, ttl).Lock(ctx)
	if err == nil && i%2 == 0 {
		_ = l.Context() // some callers use it, and others do not
	}
	return l, err
}

// releaseHalf releases every second lease. An error is that of a lease that was lost.
func (p *population) releaseHalf() {
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	var wg sync.WaitGroup
	for f := range fillers {
		wg.Go(func() {
			for i := f; i < len(p.leases); i += fillers {
				if l := p.leases[i]; i%2 == 0 && l != nil {
					_ = l.Release(ctx)
				}
			}
		})
	}
	wg.Wait()
}
