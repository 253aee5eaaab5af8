package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Two clients that share an engine stand in for two processes.
func ExampleNew() {
	ctx := context.Background()
	store := memory.New()
	first, err := holdfast.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	second, err := holdfast.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()

	lease, err := first.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	_, err = second.Mutex("stock:42").TryLock(ctx)
	fmt.Println("refused:", errors.Is(err, holdfast.ErrNotAcquired))
	// Output: refused: true
}
