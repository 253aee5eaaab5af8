package holdfast_test

import (
	"context"
	"expvar"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A program shows what its client does at /debug/vars.
func ExampleClient_Stats() {
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	expvar.Publish("holdfast", expvar.Func(func() any { return client.Stats() }))

	lease, err := client.Mutex("stock:42").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(context.Background())
	fmt.Println(client.Stats().Leases)
	// Output: 1
}
