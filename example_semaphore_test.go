package holdfast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// At most five calls to a slow partner at once, from all nodes together; a big
// call counts as three.
func ExampleSemaphore() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	partner := client.Semaphore("partner-api", 5)
	big, err := partner.Acquire(ctx, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer big.Release(ctx)
	small, err := partner.Acquire(ctx, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer small.Release(ctx)

	_, err = partner.TryAcquire(ctx, 1)
	fmt.Println("room for one more:", !errors.Is(err, holdfast.ErrNotAcquired))
	_, err = partner.Acquire(ctx, 6)
	fmt.Println("six of five:", errors.Is(err, holdfast.ErrTooHeavy))
	// Output:
	// room for one more: false
	// six of five: true
}

func ExampleSemaphore_Do() {
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = client.Semaphore("partner-api", 5).Do(context.Background(), 1, func(ctx context.Context) error {
		// ctx is cancelled when the lease is lost: stop calling then.
		return ctx.Err()
	})
	fmt.Println(err)
	// Output: <nil>
}
