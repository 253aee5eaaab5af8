// Command leader is a node of a service in which one node at a time writes a
// log, and hands over to the next one without a gap or a repetition.
//
//	go run ./leader -addr 10.0.0.7:8080
//	go run ./leader -observe
//
// The leader resigns on SIGTERM, and the next candidate leads at
// once. If it dies, the next leads when its TTL is over. If it was only paused,
// its term is over when it wakes up, and the fence refuses what it still writes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
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
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the election and the log; or REDIS_URL")
	addr := flag.String("addr", "127.0.0.1:8080", "address of this node, which others see while it leads")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of a term: how long a dead leader keeps others waiting")
	observe := flag.Bool("observe", false, "print who leads, and every change")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *addr, *ttl, *observe); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url, addr string, ttl time.Duration, observe bool) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("leader"), holdfast.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	defer client.Close()

	election := client.Election(name, holdfast.WithTTL(ttl))
	if observe {
		for leader, err := range election.Observe(ctx) {
			if err != nil {
				return err
			}
			fmt.Println("leader:", cmp.Or(leader.Value, "nobody"))
		}
		return nil
	}
	w := &writer{guard: fence.NewRedis(rdb), next: fence.NewScript(next), addr: addr}
	fmt.Println("candidate:", addr)
	if err := election.Lead(ctx, addr, w.lead); ctx.Err() == nil {
		return err
	}
	return nil // a signal ended it
}

// name is that of the election. The log has it as hash tag: in a cluster it is
// on the node that has the guard.
const (
	name = "log-writer"
	key  = "{log-writer}:log"
)

type writer struct {
	guard *fence.Redis
	next  *fence.Script
	addr  string
}

// next appends the entry after the last one. It runs in one step with the check
// of the token, so an earlier leader cannot write any more.
const next = `return redis.call('RPUSH', KEYS[1], redis.call('LLEN', KEYS[1]) + 1 .. ' ' .. ARGV[1])`

// lead writes until the term ends: then ctx does, before another can lead.
func (w *writer) lead(ctx context.Context) error {
	token := holdfast.LeaseFromContext(ctx).Token()
	fmt.Println("leading:", token)
	defer fmt.Println("not leading any more")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			err := w.guard.Do(ctx, name, token, w.next, []string{key}, strconv.FormatUint(token, 10)).Err()
			if err != nil && ctx.Err() == nil && !errors.Is(err, fence.ErrStale) {
				return err // resigns, and ends the program
			}
		case <-ctx.Done():
			return nil
		}
	}
}
