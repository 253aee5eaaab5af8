package nightly

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/lab/process"
)

// nodeEnv has the settings of a node, for the process that is one.
const nodeEnv = "HOLDFAST_LAB_NIGHTLY"

// node is one process of the service.
type node struct {
	Name    string
	Store   string // address of the Redis with the locks and the reports
	Gateway string // URL
	Users   int
	Night   time.Duration // from one report to the next
	TTL     time.Duration
	// Mutex makes it use the recipe that a Job replaces: a lock at a time by the node's own clock, which is
	// late by Late.
	Mutex bool
	Late  time.Duration

	client *holdfast.Client
	rdb    *redis.Client
}

// ServeNode is the whole of a process that Run has started as a node. It returns false at once in any other process.
func ServeNode() bool {
	var n node
	return process.ServeWorker(nodeEnv, &n, n.serve)
}

// serve works until ctx ends.
func (n *node) serve(ctx context.Context) error {
	n.rdb = redis.NewClient(&redis.Options{Addr: n.Store})
	defer n.rdb.Close()
	var err error
	if n.client, err = holdfast.New(goredis.New(n.rdb), holdfast.WithName(n.Name), holdfast.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		return err
	}
	defer n.client.Close()
	if n.Mutex {
		n.byMutex(ctx)
		return nil
	}
	report := n.client.Job("report", holdfast.Every(n.Night), holdfast.RetryFailed(), holdfast.WithTTL(n.TTL))
	push := n.client.Job("push", holdfast.Every(n.Night), holdfast.RetryFailed(), holdfast.WithTTL(n.TTL))
	errs := make([]error, 2)
	var jobs sync.WaitGroup
	jobs.Go(func() {
		errs[0] = report.Serve(ctx, func(ctx context.Context) error { return n.build(ctx, night(ctx)) })
	})
	jobs.Go(func() { errs[1] = push.Serve(ctx, func(ctx context.Context) error { return n.push(ctx, night(ctx)) }) })
	jobs.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// night returns the slot that a job runs, which is the same on all nodes.
func night(ctx context.Context) string {
	_, slot, _ := strings.Cut(holdfast.LeaseFromContext(ctx).Resource(), "@")
	return slot
}

// build makes the report of a night.
func (n *node) build(ctx context.Context, night string) error {
	if err := n.post(ctx, event{Kind: building, Night: night}); err != nil {
		return err
	}
	if err := pause(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	if err := n.rdb.Set(ctx, "report@"+night, n.Name, time.Hour).Err(); err != nil {
		return err
	}
	return n.post(ctx, event{Kind: built, Night: night})
}

// push sends the report to each user once. A node that takes over leaves out those that are done.
func (n *node) push(ctx context.Context, night string) error {
	for n.rdb.Get(ctx, "report@"+night).Err() != nil {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	for i := range n.Users {
		user := fmt.Sprint("user-", i)
		send := func(ctx context.Context) error { return n.post(ctx, event{Kind: sent, Night: night, User: user}) }
		if n.Mutex {
			if err := send(ctx); err != nil {
				return err
			}
			continue
		}
		once := n.client.Job(night+":"+user, holdfast.AtLeast(time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(n.TTL))
		if _, err := once.Run(ctx, send); err != nil {
			return err
		}
	}
	return n.post(ctx, event{Kind: pushed, Night: night})
}

// byMutex builds and pushes if the lock is free when the night begins by the clock of the node.
func (n *node) byMutex(ctx context.Context) {
	m := n.client.Mutex("night", holdfast.WithTTL(n.TTL))
	for {
		now := time.Now().Add(-n.Late)
		next := now.Truncate(n.Night).Add(n.Night)
		if pause(ctx, next.Sub(now)) != nil {
			return
		}
		l, err := m.TryLock(ctx)
		if err != nil {
			continue // another node has it
		}
		name := next.UTC().Format(time.RFC3339Nano)
		_ = errors.Join(n.build(l.Context(), name), n.push(l.Context(), name)) // the gateway knows how far it got
		_ = l.Release(ctx)
	}
}

// post tells the gateway what the node does.
func (n *node) post(ctx context.Context, e event) error {
	e.Node = n.Name
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Gateway, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
