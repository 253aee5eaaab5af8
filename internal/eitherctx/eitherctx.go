// Package eitherctx has a context that ends with either of two others.
package eitherctx

import (
	"context"
	"sync"
)

// Context has the values and the deadline of the context that it embeds, and ends with it or with
// a second one. Package context makes such a context with six allocations and two registrations.
// Here that happens at the first call of the method Done; who waits with the function Done does
// without.
type Context struct {
	context.Context // the first
	second          context.Context

	mu     sync.Mutex
	err    error           // what Err has returned
	ended  bool            // by Stop or the second, before the whole knew
	whole  context.Context // as package context makes it; nil until then
	cancel context.CancelFunc
	stop   func() bool
}

// New returns a Context, which the caller must Stop.
func New(first, second context.Context) *Context {
	return &Context{Context: first, second: second}
}

// Done returns two channels, of which one is closed when ctx ends or, if it is a *Context, when
// one of its two does; the other may be nil.
func Done(ctx context.Context) (first, second <-chan struct{}) {
	if c, ok := ctx.(*Context); ok {
		return c.Context.Done(), c.second.Done()
	}
	return ctx.Done(), nil
}

// Stop ends the Context.
func (c *Context) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole == nil {
		c.ended = c.ended || c.Context.Err() == nil
		return
	}
	c.stop()
	c.cancel()
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole == nil {
		ended := c.look() != nil
		c.whole, c.cancel = context.WithCancel(c.alone())
		if ended {
			c.cancel()
			c.stop = func() bool { return false } // nothing is registered
		} else {
			c.stop = context.AfterFunc(c.second, c.cancel)
		}
	}
	return c.whole.Done()
}

// Err implements context.Context. It knows of an end as soon as the function Done does: package context
// closes the channel of a context before it ends those that are made of it.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.whole != nil {
		c.err = c.whole.Err()
	}
	if c.err == nil {
		c.err = c.look()
	}
	if c.ended && c.whole != nil {
		c.cancel()
	}
	return c.err
}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole != nil {
		return c.whole.Value(key)
	}
	return c.alone().Value(key)
}

// look is Err as far as the two contexts and Stop decide it. The mutex is held.
func (c *Context) look() error {
	if !c.ended {
		if err := c.Context.Err(); err != nil {
			return err
		}
		c.ended = c.second.Err() != nil
	}
	if c.ended {
		return context.Canceled
	}
	return nil
}

// alone is the first context, whose end does not count any more if the Context had ended before.
func (c *Context) alone() context.Context {
	if c.ended {
		return context.WithoutCancel(c.Context)
	}
	return c.Context
}
