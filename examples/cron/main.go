// Command cron runs a crontab on any number of nodes: every entry runs once
// each time it is due, on one of them.
//
//	go run ./cron
//	go run ./cron -every 2s   # all entries every two seconds, to watch it
//
// The store's clock says when an entry is due, so the clocks of the nodes do
// not matter, and a node that is late finds the slot marked as done.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/redis/go-redis/v9"
)

type entry struct {
	name, due string // due is in UTC
	run       func(ctx context.Context) error
}

func crontab() []entry {
	return []entry{
		{"clean-carts", "*/5 * * * *", cleanCarts},
		{"daily-digest", "0 6 * * 1-5", sendDigest},
		{"rotate-keys", "@monthly", rotateKeys},
	}
}

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the locks; or REDIS_URL")
	every := flag.Duration("every", 0, "run all entries at this interval, to try it out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *every); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url string, every time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("cron"), holdfast.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	defer client.Close()

	fmt.Println("serving")
	var entries sync.WaitGroup
	for _, e := range crontab() {
		when := holdfast.Cron(e.due)
		if every > 0 {
			when = holdfast.Every(every)
		}
		entries.Go(func() {
			err := client.Job(e.name, when).Serve(ctx, func(ctx context.Context) error {
				fmt.Println("running:", holdfast.LeaseFromContext(ctx).Resource()) // name@start of the slot
				return e.run(ctx)
			})
			if ctx.Err() == nil {
				slog.Error("the entry is not served any more", "entry", e.name, "error", err)
			}
		})
	}
	entries.Wait()
	return nil
}

// What an entry does ends when ctx does: then the lease is lost, or the node ends.
func cleanCarts(ctx context.Context) error { return ctx.Err() }
func sendDigest(ctx context.Context) error { return ctx.Err() }
func rotateKeys(ctx context.Context) error { return ctx.Err() }
