package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Three nodes with 12 workers call a partner that allows 4 calls at once and 4
// in 200 ms. One is killed. A token is the time of its grant in microseconds by
// the store's clock, which tells how many there were in a window.
func TestPartnerIsNotOverrun(t *testing.T) {
	const limit, window, calls = 4, 200 * time.Millisecond, 32
	server := redistest.Start(t)
	var inside, most, all atomic.Int32
	partner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		all.Add(1)
	}))
	defer partner.Close()
	var nodes []*node.Process
	for _, ttl := range []string{"1s", "15s", "15s"} {
		nodes = append(nodes, node.Start(t, "-redis", server.URL(), "-partner", partner.URL,
			"-limit", fmt.Sprint(limit), "-window", window.String(), "-workers", "4", "-ttl", ttl))
	}
	redistest.Await(t, 20*time.Second, "a call", func() bool { return all.Load() > 0 })
	nodes[0].Kill()
	redistest.Await(t, 30*time.Second, "all calls", func() bool { return all.Load() >= calls })
	var tokens []uint64
	for i, n := range nodes {
		if i > 0 {
			n.Signal(syscall.SIGTERM)
			n.Wait()
		}
		for _, text := range n.Matching("called: ") {
			token, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	for i := limit; i < len(tokens); i++ {
		if span := time.Duration(tokens[i]-tokens[i-limit]) * time.Microsecond; span < window {
			t.Errorf("%d grants within %v, less than the window of %v", limit+1, span, window)
		}
	}
	if most.Load() > limit {
		t.Errorf("%d calls at once, more than %d", most.Load(), limit)
	}
}
