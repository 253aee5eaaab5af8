package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Four nodes serve the crontab, and one of them is killed: no slot runs twice,
// and slots go on running.
func TestEachSlotRunsOnce(t *testing.T) {
	server := redistest.Start(t)
	var nodes []*node.Process
	for range 4 {
		nodes = append(nodes, node.Start(t, "-redis", server.URL(), "-every", "200ms"))
	}
	ran := func() map[string]int {
		all := map[string]int{}
		for _, n := range nodes {
			for _, slot := range n.Matching("running: ") {
				all[slot]++
			}
		}
		return all
	}
	enough := func(slots int) func() bool { return func() bool { return len(ran()) >= slots } }
	entries := len(crontab())
	redistest.Await(t, 20*time.Second, "two slots of each entry", enough(2*entries))
	nodes[0].Kill()
	redistest.Await(t, 20*time.Second, "three more slots of each entry", enough(len(ran())+3*entries))
	for _, n := range nodes[1:] {
		n.Signal(syscall.SIGTERM)
		n.Wait()
	}
	for slot, times := range ran() {
		if times != 1 {
			t.Errorf("%s ran %d times", slot, times)
		}
	}
}
