package quorum_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// A lease is held by a majority of the nodes. In production each node is an independent store, as
// goredis.New(rdb1), goredis.New(rdb2), goredis.New(rdb3).
func ExampleNew() {
	ctx := context.Background()
	client, err := holdfast.New(quorum.New(memory.New(), memory.New(), memory.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lease, err := client.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("held:", lease.Err() == nil)
	// Output: held: true
}
