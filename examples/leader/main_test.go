package main

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Leadership passes from a node that is told to end, from one that is killed and
// from one that is stopped past its TTL and goes on. The log has no gap, no
// repetition, and never again an entry of an earlier term.
func TestOneLeaderAtATime(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	client, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	observer := node.Start(t, "-redis", server.URL(), "-observe")
	observer.Await("leader: nobody")
	var nodes []*node.Process
	for i, ttl := range []string{"15s", "1s", "1s", "15s"} { // one after the other: they lead in this order
		n := node.Start(t, "-redis", server.URL(), "-addr", fmt.Sprint("node-", i), "-ttl", ttl)
		nodes = append(nodes, n)
		if i == 0 {
			n.Await("leading: ")
			continue
		}
		redistest.Await(t, 10*time.Second, "the candidate in the queue", func() bool {
			s, err := client.Snapshot(t.Context(), name)
			return err == nil && len(s.Waiters) == i
		})
	}
	nodes[0].Signal(syscall.SIGTERM)
	nodes[1].Await("leading: ")
	nodes[0].Wait()
	nodes[1].Kill()
	nodes[2].Await("leading: ")
	nodes[2].Signal(syscall.SIGSTOP)
	last, err := strconv.ParseUint(nodes[3].Await("leading: "), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	nodes[2].Signal(syscall.SIGCONT)
	nodes[2].Await("not leading any more")
	observer.Await("leader: node-3")

	entries := func() []string { return rdb.LRange(t.Context(), key, 0, -1).Val() }
	some := len(entries())
	redistest.Await(t, 10*time.Second, "entries of the last leader", func() bool { return len(entries()) > some+5 })
	var newest uint64
	for i, entry := range entries() {
		number, text, _ := strings.Cut(entry, " ")
		token, err := strconv.ParseUint(text, 10, 64)
		if err != nil || number != strconv.Itoa(i+1) || token < newest {
			t.Fatalf("entry %d is %q after one with token %d", i+1, entry, newest)
		}
		newest = token
	}
	if newest != last {
		t.Errorf("the last entry has token %d, the last leader %d", newest, last)
	}
	for _, n := range nodes[2:] {
		n.Signal(syscall.SIGTERM)
		n.Wait()
	}
}
