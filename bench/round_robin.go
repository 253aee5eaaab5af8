package main

import (
	"context"
	"fmt"
)

// roundRobin is the locks of several resources. One caller acquires and releases them
// in turn.
type roundRobin struct {
	locks []lock
	next  int
}

// roundRobinOf returns the locks of n resources. For one resource it returns the lock
// itself.
func roundRobinOf(p client, resource string, n int) lock {
	if n <= 1 {
		return p.lock(resource)
	}
	c := &roundRobin{}
	for i := range n {
		c.locks = append(c.locks, p.lock(fmt.Sprintf("%s:%d", resource, i)))
	}
	return c
}

func (c *roundRobin) Lock(ctx context.Context) error { return c.locks[c.next].Lock(ctx) }

func (c *roundRobin) Unlock(ctx context.Context) error {
	l := c.locks[c.next]
	c.next = (c.next + 1) % len(c.locks)
	return l.Unlock(ctx)
}
