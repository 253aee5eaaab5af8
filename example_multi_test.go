package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A transfer needs both accounts. Two transfers in opposite directions do not
// deadlock.
func ExampleMulti_Do() {
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	balance := map[string]int{"account:1": 10, "account:2": 0}
	err = client.Multi([]string{"account:2", "account:1"}).Do(context.Background(), func(ctx context.Context) error {
		balance["account:1"] -= 5
		balance["account:2"] += 5
		return ctx.Err() // cancelled when either is lost: stop working then
	})
	fmt.Println(balance["account:1"], balance["account:2"], err)
	// Output: 5 5 <nil>
}

// Each resource has its own fencing token, which belongs to the writes to that
// resource.
func ExampleMulti_Lock() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lease, err := client.Multi([]string{"stock:42", "order:7"}).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	var names []string
	for name, token := range lease.Tokens() {
		if token > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fmt.Println(names, lease.Token() == lease.Tokens()["stock:42"])
	// Output: [order:7 stock:42] true
}

func ExampleMulti_TryLock() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	other, err := client.Mutex("order:7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Release(ctx)

	_, err = client.Multi([]string{"stock:42", "order:7"}).TryLock(ctx)
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		fmt.Println("busy:", held.Resource)
	}
	// Output: busy: order:7
}
