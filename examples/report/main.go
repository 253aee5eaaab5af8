// Command report is a node of a service that builds a report at midnight and
// pushes it to each user at eight. Run it on as many nodes as you like: one
// builds, one pushes, and if that one dies another goes on where it stopped.
//
//	go run ./report -gateway http://gateway.internal/push
//
// A lock alone cannot do that: a job that takes a second is over before the
// clock of a slower node says eight. A Job marks the slot as done.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
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
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the locks and the report; or REDIS_URL")
	gateway := flag.String("gateway", "http://127.0.0.1:8080/push", "URL that takes a push")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of a run: how long a dead node keeps others waiting")
	catchUp := flag.Bool("catch-up", false, "run the current slot of both jobs, unless it was run, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *gateway, *ttl, *catchUp); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url, gateway string, ttl time.Duration, catchUp bool) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("report"))
	if err != nil {
		return err
	}
	defer client.Close()

	s := &service{client: client, rdb: rdb, gateway: gateway, ttl: ttl}
	build := client.Job("report", holdfast.Cron("0 0 * * *"), holdfast.RetryFailed(), holdfast.WithTTL(ttl))
	push := client.Job("push", holdfast.Cron("0 8 * * *"), holdfast.RetryFailed(), holdfast.WithTTL(ttl))
	if catchUp {
		if _, err := build.Run(ctx, s.build); err != nil {
			return err
		}
		_, err := push.Run(ctx, s.push)
		return err
	}
	var jobs sync.WaitGroup
	errs := make([]error, 2)
	jobs.Go(func() { errs[0] = build.Serve(ctx, s.build) })
	jobs.Go(func() { errs[1] = push.Serve(ctx, s.push) })
	jobs.Wait()
	if ctx.Err() != nil {
		return nil // a signal ended it
	}
	return errors.Join(errs...)
}

type service struct {
	client  *holdfast.Client
	rdb     *redis.Client
	gateway string
	ttl     time.Duration
}

// build makes the report: here a text for each user. Twice would be a waste.
func (s *service) build(ctx context.Context) error {
	users, err := s.rdb.SMembers(ctx, "users").Result()
	if err != nil {
		return err
	}
	report := map[string]any{}
	for _, user := range users {
		report[user] = "the figures of " + user
	}
	if err := s.rdb.HSet(ctx, "report", report).Err(); err != nil {
		return err
	}
	fmt.Println("built: a report for", len(users), "users")
	return nil
}

// push sends the report to each user. Twice would be a fault that users see, so
// each user is work of its own, which is done once: a node that takes over skips
// those that are marked.
func (s *service) push(ctx context.Context) error {
	slot := holdfast.LeaseFromContext(ctx).Resource() // push@2026-11-22T08:00:00Z, on every node
	report, err := s.rdb.HGetAll(ctx, "report").Result()
	if err != nil {
		return err
	}
	for user, text := range report {
		id := slot + ":" + user
		once := s.client.Job(id, holdfast.AtLeast(48*time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(s.ttl))
		if _, err := once.Run(ctx, func(ctx context.Context) error { return s.send(ctx, id, text) }); err != nil {
			return err
		}
	}
	fmt.Println("pushed: all users")
	return nil
}

// send carries the id along, so that the gateway can drop a repetition: a node
// may die when the gateway has the message and the mark is not made yet.
func (s *service) send(ctx context.Context, id, text string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.gateway, bytes.NewBufferString(text))
	if err != nil {
		return err
	}
	r.Header.Set("Idempotency-Key", id)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("gateway: %s", answer.Status)
	}
	return nil
}
