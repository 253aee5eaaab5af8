// Command stock is a node of a service that sells one item and never a unit
// that is not there. Run it on as many nodes as you like:
//
//	redis-cli set stock:42 100
//	go run ./stock -item stock:42 -orders 60
//
// A sale reads the stock, gets the order approved, and writes the stock. The
// lock keeps others out meanwhile; the fencing token keeps out a node that was
// paused during the approval and comes back after its lease has passed on.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/redis/go-redis/v9"
)

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the locks and the stock; or REDIS_URL")
	item := flag.String("item", "stock:42", "key of the stock, and name of the lock")
	orders := flag.Int("orders", 10, "number of orders to serve")
	approval := flag.Duration("approval", time.Millisecond, "how long the approval of an order takes")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of the lock: how long a dead node keeps others waiting")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *item, *orders, *approval, *ttl); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url, item string, orders int, approval, ttl time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("stock"))
	if err != nil {
		return err
	}
	defer client.Close()

	s := &shop{lock: client.Mutex(item, holdfast.WithTTL(ttl)), guard: fence.NewRedis(rdb), item: item, approval: approval}
	for order := 1; order <= orders && ctx.Err() == nil; {
		switch err := s.sell(ctx, order); {
		case err == nil:
			fmt.Println("sold: order", order)
			order++
		case errors.Is(err, errSoldOut):
			fmt.Println("sold out at order", order)
			return nil
		case errors.Is(err, holdfast.ErrLost), errors.Is(err, fence.ErrStale):
			fmt.Println("not sold, try again:", err)
		case ctx.Err() != nil:
			return nil // a signal ended the wait
		default:
			return err
		}
	}
	return nil
}

var errSoldOut = errors.New("sold out")

type shop struct {
	lock     *holdfast.Mutex
	guard    *fence.Redis
	item     string
	approval time.Duration
}

// sell takes one unit off the stock. With an error nothing was written, unless
// it is one of the connection: then it is unknown, as with any write.
func (s *shop) sell(ctx context.Context, order int) error {
	lease, err := s.lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	// The read claims the token: from here on, a write with an older one is refused.
	text, err := s.guard.Get(ctx, s.item, lease.Token(), s.item)
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if left == 0 {
		return errSoldOut
	}
	if err := s.approve(lease.Context(), order); err != nil { // ends when the lease is lost
		return err
	}
	return s.guard.Set(ctx, s.item, lease.Token(), s.item, left-1, 0)
}

// approve stands for a call of another service that takes a while.
func (s *shop) approve(ctx context.Context, order int) error {
	fmt.Println("approving: order", order)
	select {
	case <-time.After(s.approval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
