package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A client is created once per service and creates all locks.
func ExampleNew() {
	c, err := holdfast.New(memory.New(), holdfast.WithPrefix("shop"), holdfast.WithName("order-service"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx := context.Background()
	lease, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	s, err := c.Snapshot(ctx, "stock:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Resource, "is held by", s.Holders[0].Name)
	// Output: stock:42 is held by order-service
}

// To interrupt a wait, cancel the ctx. Classic interface: lockInterruptibly.
func ExampleMutex_Lock_interruptibly() {
	c, _ := holdfast.New(memory.New())
	defer c.Close()
	held, _ := c.Mutex("stock:42").Lock(context.Background())
	defer held.Release(context.Background())

	shutdown := errors.New("the service shuts down")
	ctx, interrupt := context.WithCancelCause(context.Background())
	time.AfterFunc(10*time.Millisecond, func() { interrupt(shutdown) })
	_, err := c.Mutex("stock:42").Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, shutdown))
	// Output: true true
}

// To bound a wait, use a ctx with a deadline. Classic interface: tryLock with a
// time.
func ExampleMutex_Lock_withinATime() {
	c, _ := holdfast.New(memory.New())
	defer c.Close()
	held, _ := c.Mutex("stock:42").Lock(context.Background())
	defer held.Release(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("stock:42").Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// Only the lease can release the resource, and only once.
func ExampleLease_Release() {
	c, _ := holdfast.New(memory.New())
	defer c.Close()
	ctx := context.Background()
	lease, _ := c.Mutex("stock:42").Lock(ctx)
	fmt.Println(lease.Release(ctx))
	fmt.Println(errors.Is(lease.Release(ctx), holdfast.ErrNotHeld))
	// Output:
	// <nil>
	// true
}

// Re-entry follows the lease's context and not the thread. Without
// WithReentrancy, a second Lock fails at once instead of waiting for itself.
func ExampleWithReentrancy() {
	c, _ := holdfast.New(memory.New())
	defer c.Close()
	m := c.Mutex("stock:42", holdfast.WithReentrancy())
	outer, _ := m.Lock(context.Background())
	defer outer.Release(context.Background())

	inner, err := m.Lock(outer.Context())
	fmt.Println(err, inner.Token() == outer.Token())
	_ = inner.Release(context.Background()) // the outer lease is held on

	_, err = c.Mutex("stock:42").Lock(outer.Context())
	fmt.Println(errors.Is(err, holdfast.ErrDeadlock))
	// Output:
	// <nil> true
	// true
}
