package main

import (
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Three nodes want 90 units of 50. A fourth is stopped in the middle of a sale
// for longer than its TTL, and goes on when all is sold.
func TestNothingIsOversold(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	const units = 50
	if err := rdb.Set(t.Context(), "stock:42", units, 0).Err(); err != nil {
		t.Fatal(err)
	}
	stopped := node.Start(t, "-redis", server.URL(), "-ttl", "500ms", "-approval", "2s")
	stopped.Await("approving: ")
	stopped.Signal(syscall.SIGSTOP)
	nodes := []*node.Process{stopped}
	for range 3 {
		nodes = append(nodes, node.Start(t, "-redis", server.URL(), "-orders", "30"))
	}
	for _, n := range nodes[1:] {
		n.Wait()
	}
	stopped.Signal(syscall.SIGCONT)
	stopped.Wait()

	sold := 0
	for _, n := range nodes {
		sold += len(n.Matching("sold: "))
	}
	left, err := rdb.Get(t.Context(), "stock:42").Int()
	if err != nil || sold != units || left != 0 {
		t.Errorf("%d of %d units sold, %d left, %v", sold, units, left, err)
	}
	stopped.Await("not sold, try again: ")
}
