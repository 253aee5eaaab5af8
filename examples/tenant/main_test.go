package main

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Three nodes work on five tenants. One is stopped for longer than its TTL and
// goes on, another is killed: each tenant has its results once each, in order.
func TestTenantsAreServedInOrder(t *testing.T) {
	const tenants, messages = 5, 60
	server := redistest.Start(t)
	rdb := server.Client()
	var want []string
	for m := range messages {
		want = append(want, fmt.Sprint("did ", m))
		for i := range tenants {
			if err := rdb.RPush(t.Context(), queue(fmt.Sprint("tenant:", i+1)), m).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := func() int {
		sum := 0
		for i := range tenants {
			sum += int(rdb.LLen(t.Context(), results(fmt.Sprint("tenant:", i+1))).Val())
		}
		return sum
	}
	start := func(ttl string) *node.Process {
		return node.Start(t, "-redis", server.URL(), "-tenants", fmt.Sprint(tenants), "-ttl", ttl)
	}
	stopped, killed := start("500ms"), start("500ms")
	redistest.Await(t, 20*time.Second, "the first results", func() bool { return done() > 0 })
	stopped.Signal(syscall.SIGSTOP)
	killed.Kill()
	last := start("15s")
	redistest.Await(t, 20*time.Second, "all results", func() bool { return done() >= tenants*messages })
	stopped.Signal(syscall.SIGCONT)
	for _, n := range []*node.Process{stopped, last} {
		n.Stop()
	}
	for i := range tenants {
		got, err := rdb.LRange(t.Context(), results(fmt.Sprint("tenant:", i+1)), 0, -1).Result()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("tenant:%d has the results %q, %v", i+1, got, err)
		}
	}
}
