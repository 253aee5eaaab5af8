package holdfast_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A report that is better built twice than not at all is built even without the
// store, and the caller can check that.
func ExampleWithFallback() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lease, err := client.Mutex("report:daily", holdfast.WithFallback(holdfast.LocalOnly)).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	switch lease.Fallback() {
	case holdfast.FailClosed:
		fmt.Println("nobody else builds it")
	default: // the token is 0, and every fence refuses it
		fmt.Println("somebody else may build it too")
	}
	// Output: nobody else builds it
}
