// Command rate is a node of a service that calls a partner that allows a number
// of calls at once, and that number in any window of time, from all nodes
// together.
//
//	go run ./rate -partner http://partner.example/quote -limit 5 -window 1s
//
// A unit of a semaphore is the right to call. A worker keeps it until the call
// is over and until the window is over that began with it. A node that dies
// gives its units back by their TTL.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/redis/go-redis/v9"
)

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the semaphore; or REDIS_URL")
	partner := flag.String("partner", "http://127.0.0.1:8080/quote", "URL to call")
	limit := flag.Int("limit", 5, "calls at once, and in any window; the same on all nodes")
	window := flag.Duration("window", time.Second, "the window; shorter than the TTL")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of a unit: how long a dead node keeps its units")
	workers := flag.Int("workers", 5, "workers of this node")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *partner, *limit, *workers, *window, *ttl); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url, partner string, limit, workers int, window, ttl time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("rate"))
	if err != nil {
		return err
	}
	defer client.Close()

	calls := client.Semaphore("partner-api", limit, holdfast.WithTTL(ttl))
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := limited(ctx, calls, window, func(ctx context.Context) error { return quote(ctx, partner) }); err != nil && ctx.Err() == nil {
					log.Print(err)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// limited runs call when the semaphore has a unit for it. The window begins when
// the grant has arrived, which is after the store made it, and the unit goes back
// when the window is over: so in any window no more units are granted than there are.
func limited(ctx context.Context, calls *holdfast.Semaphore, window time.Duration, call func(ctx context.Context) error) error {
	lease, err := calls.Acquire(ctx, 1)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	over := time.After(window)
	err = call(lease.Context())
	<-over // also if ctx has ended: a unit that goes back early is a call too many
	fmt.Println("called:", lease.Token())
	return err
}

func quote(ctx context.Context, partner string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, partner, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
