package main

import (
	"context"
	"fmt"
)

// circuit is the locks of several resources that one caller takes in turn, each
// after the one before was given back.
type circuit struct {
	locks []lock
	next  int
}

// circuitOf makes the locks of n resources; of one it is the lock itself.
func circuitOf(p party, resource string, n int) lock {
	if n <= 1 {
		return p.lock(resource)
	}
	c := &circuit{}
	for i := range n {
		c.locks = append(c.locks, p.lock(fmt.Sprintf("%s:%d", resource, i)))
	}
	return c
}

func (c *circuit) Lock(ctx context.Context) error { return c.locks[c.next].Lock(ctx) }

func (c *circuit) Unlock(ctx context.Context) error {
	l := c.locks[c.next]
	c.next = (c.next + 1) % len(c.locks)
	return l.Unlock(ctx)
}
