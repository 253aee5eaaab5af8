package holdfast_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func ExampleMutex_Lock() {
	ctx := context.Background()
	client, err := holdfast.New(memory.New()) // in production: goredis.New(rdb)
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

func ExampleMutex_Do() {
	client, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	stock := 3
	err = client.Mutex("stock:42").Do(context.Background(), func(ctx context.Context) error {
		if stock == 0 {
			return errors.New("sold out")
		}
		stock-- // ctx is cancelled when the lease is lost: stop working then
		return ctx.Err()
	})
	fmt.Println(stock, err)
	// Output: 2 <nil>
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	store := memory.New()
	billing, err := holdfast.New(store, holdfast.WithName("billing"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer billing.Close()
	shop, err := holdfast.New(store, holdfast.WithName("shop"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shop.Close()

	lease, err := billing.Mutex("report", holdfast.WithReason("nightly run")).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)

	_, err = shop.Mutex("report").TryLock(ctx)
	if held, ok := errors.AsType[*holdfast.HeldError](err); ok {
		fmt.Printf("%s is held by %s for %q\n", held.Resource, held.Name, held.Reason)
	}
	fmt.Println(errors.Is(err, holdfast.ErrNotAcquired))
	// Output:
	// report is held by billing for "nightly run"
	// true
}

// account is what the lock protects. It keeps the highest token it has seen and
// refuses writes with an older one, in the same step as the write. In SQL:
// UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2.
type account struct {
	balance int
	fence   uint64
}

func (a *account) write(balance int, token uint64) error {
	if token < a.fence {
		return errors.New("stale token")
	}
	a.balance, a.fence = balance, token
	return nil
}

func ExampleLease_Token() {
	ctx := context.Background()
	store := memory.New()
	node1, err := holdfast.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node1.Close()
	node2, err := holdfast.New(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node2.Close()
	var acc account

	slow, err := node1.Mutex("account:7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The holder is paused here for longer than its TTL. An operator frees the
	// resource by force, and another node works on it.
	if err := node2.Break(ctx, "account:7", slow.HolderID(), holdfast.Force()); err != nil {
		fmt.Println(err)
		return
	}
	quick, err := node2.Mutex("account:7").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer quick.Release(ctx)
	fmt.Println("quick:", acc.write(10, quick.Token()))
	fmt.Println("slow:", acc.write(5, slow.Token())) // it wakes up and writes
	// Output:
	// quick: <nil>
	// slow: stale token
}
