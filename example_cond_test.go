package holdfast_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A buffer for two items. It stands for rows in a database: what the mutex
// protects is shared by processes, as are the mutex and its conditions.
type buffer struct {
	items             []int
	mutex             *holdfast.Mutex
	notEmpty, notFull *holdfast.Cond
}

// until acquires the mutex and waits until ready returns true.
func (b *buffer) until(ctx context.Context, ready func() bool, cond *holdfast.Cond) (*holdfast.Lease, error) {
	lease, err := b.mutex.Lock(ctx)
	for err == nil && !ready() { // again after every wait: others may have been faster
		lease, err = cond.Wait(ctx, lease)
	}
	return lease, err // with an error, the mutex is not held
}

func (b *buffer) put(ctx context.Context, item int) error {
	lease, err := b.until(ctx, func() bool { return len(b.items) < 2 }, b.notFull)
	if err != nil {
		return err
	}
	b.items = append(b.items, item)
	if err := lease.Release(ctx); err != nil {
		return err
	}
	return b.notEmpty.Signal(ctx)
}

func (b *buffer) take(ctx context.Context) (int, error) {
	lease, err := b.until(ctx, func() bool { return len(b.items) > 0 }, b.notEmpty)
	if err != nil {
		return 0, err
	}
	item := b.items[0]
	b.items = b.items[1:]
	if err := lease.Release(ctx); err != nil {
		return 0, err
	}
	return item, b.notFull.Signal(ctx)
}

// A producer and a consumer share a bounded buffer.
func ExampleCond() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	mutex := client.Mutex("buffer")
	b := &buffer{mutex: mutex, notEmpty: mutex.Cond("not empty"), notFull: mutex.Cond("not full")}
	var producer sync.WaitGroup
	producer.Go(func() {
		for item := range 5 {
			if err := b.put(ctx, item); err != nil {
				fmt.Println(err)
			}
		}
	})
	for range 5 {
		item, err := b.take(ctx)
		fmt.Println(item, err)
	}
	producer.Wait()
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
	// 4 <nil>
}
