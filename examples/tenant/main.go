// Command tenant is a node of a service that works on the messages of many
// tenants: those of one tenant in order and one at a time, whichever node does
// it, and the tenants side by side.
//
//	redis-cli rpush '{tenant:7}:queue' first second third
//	go run ./tenant -tenants 20
//
// A free worker takes any tenant that is free, works for a while, and
// gives it back. A message leaves the queue in the step that writes its result,
// and only with the newest fencing token, so a worker that was paused cannot
// write a result again.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/redis/go-redis/v9"
)

// batch is how many messages a worker takes before it gives the tenant back.
const batch = 20

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the locks and the queues; or REDIS_URL")
	tenants := flag.Int("tenants", 10, "number of tenants, from tenant:1 on")
	workers := flag.Int("workers", 4, "number of tenants that this node works on at once")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of the lock: how long a dead node keeps its tenants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *tenants, *workers, *ttl); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url string, tenants, workers int, ttl time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("tenant"))
	if err != nil {
		return err
	}
	defer client.Close()

	p := &processor{client: client, rdb: rdb, guard: fence.NewRedis(rdb), finish: fence.NewScript(finish), ttl: ttl}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { p.work(ctx, tenants) })
	}
	all.Wait()
	return nil
}

type processor struct {
	client *holdfast.Client
	rdb    *redis.Client
	guard  *fence.Redis
	finish *fence.Script
	ttl    time.Duration
}

// work goes round the tenants, each time in another order, until ctx ends.
func (p *processor) work(ctx context.Context, tenants int) {
	for ctx.Err() == nil {
		for _, i := range rand.Perm(tenants) {
			if err := p.serveTenant(ctx, fmt.Sprint("tenant:", i+1)); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// serveTenant handles up to a batch of a tenant's messages, unless another
// worker has it.
func (p *processor) serveTenant(ctx context.Context, tenant string) error {
	lease, err := p.client.Mutex(tenant, holdfast.WithTTL(p.ttl)).TryLock(ctx)
	if errors.Is(err, holdfast.ErrNotAcquired) {
		return nil // another worker has the tenant
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	for range batch {
		message, err := p.guard.Command(ctx, tenant, lease.Token(), "LINDEX", queue(tenant), 0).Text()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := handle(lease.Context(), message)
		if err != nil {
			return err
		}
		keys := []string{queue(tenant), results(tenant)}
		if err := p.guard.Do(ctx, tenant, lease.Token(), p.finish, keys, result).Err(); err != nil {
			return err
		}
	}
	return nil
}

// The keys of a tenant have its name as hash tag: in a cluster they are on the
// node that has the guard.
func queue(tenant string) string   { return "{" + tenant + "}:queue" }
func results(tenant string) string { return "{" + tenant + "}:results" }

// finish takes the message off the queue and keeps its result. It runs in one
// step with the check of the token.
const finish = `
redis.call('LPOP', KEYS[1])
return redis.call('RPUSH', KEYS[2], ARGV[1])`

func handle(ctx context.Context, message string) (string, error) {
	select {
	case <-time.After(time.Millisecond): // the work
		return "did " + message, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
