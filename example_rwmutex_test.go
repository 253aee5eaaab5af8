package holdfast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func ExampleRWMutex() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	prices := client.RWMutex("prices")
	err = prices.RDo(ctx, func(ctx context.Context) error {
		// Others can read now, but not write.
		other, err := prices.TryRLock(context.Background())
		if err != nil {
			return err
		}
		defer other.Release(context.Background())
		_, err = prices.TryLock(context.Background())
		fmt.Println("a writer beside readers:", errors.Is(err, holdfast.ErrNotAcquired))
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = prices.Do(ctx, func(ctx context.Context) error {
		_, err := prices.TryRLock(context.Background())
		fmt.Println("a reader beside a writer:", errors.Is(err, holdfast.ErrNotAcquired))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// a writer beside readers: true
	// a reader beside a writer: true
}

// Write, then let others read at once, while still reading: no other writer
// gets in between.
func ExampleLease_Demote() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	report := client.RWMutex("report:2026-11")
	lease, err := report.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	// … build the report …
	if err := lease.Demote(ctx); err != nil {
		fmt.Println(err)
		return
	}
	reader, err := report.TryRLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Release(ctx)
	_, err = report.TryLock(ctx)
	fmt.Println("another writer:", errors.Is(err, holdfast.ErrNotAcquired))
	// Output: another writer: true
}
