package contrib

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// playDemo runs holdfast demo on the Redis of a service: its nodes are processes, of which some are killed and stopped. It
// fails unless all claims of the demo held.
func playDemo(t *testing.T, s *service, command string) {
	if out, err := exec.Command(command, "--store", s.redis.URL(), "demo").CombinedOutput(); err != nil {
		t.Errorf("holdfast demo: %v\n%s", err, out)
	}
}

// The nodes of a service play the scenes of holdfast demo, without an end and with metrics, which the nodes of the demo do
// not have.
const (
	item = "stock:42"
	turn = 5 * time.Second // limit of one turn; a turn that has begun ends

	ttlOfScenes = time.Minute
	ttlOfHolder = 1500 * time.Millisecond
)

// sell sells unit by unit: it reads the stock and writes it, under a lease and its token.
func (n *node) sell(ctx context.Context) {
	every(ctx, 50*time.Millisecond, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turn)
		defer cancel()
		l, err := n.Mutex(item, holdfast.WithTTL(ttlOfScenes)).Lock(ctx)
		if err != nil {
			return
		}
		defer l.Release(ctx)
		text, _ := n.stock.Get(ctx, item, l.Token(), item) // "" if there is no stock yet: the first unit is -1
		units, _ := strconv.Atoi(text)
		_ = n.stock.Set(ctx, item, l.Token(), item, units-1, 0)
	})
}

// report builds a report and pushes it to each user, then the next. The other node does so too, and each part is done once.
func (n *node) report(ctx context.Context) {
	number := 0
	every(ctx, 100*time.Millisecond, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turn)
		defer cancel()
		number++
		for _, part := range []string{"report", "push:user-1", "push:user-2"} {
			name := fmt.Sprintf("%s:%d", part, number)
			_, _ = n.Job(name, holdfast.AtLeast(time.Hour), holdfast.WithTTL(ttlOfScenes)).Run(ctx, func(context.Context) error { return nil })
		}
	})
}

// startHolder starts one more node as a process. Its metrics are those of the service.
func (s *service) startHolder(t *testing.T) {
	t.Helper()
	s.metrics, s.holder = start(t, "http://", os.Args[0], holderProcess, s.redis.Addr())
}

// holderProcess is the argument with which the binary of the test is that process.
const holderProcess = "holder"

// hold is that process. It never ends its work under the lease of the item.
func hold(address string) {
	time.AfterFunc(5*time.Minute, func() { os.Exit(1) }) // if the test is gone
	nodes, url := newNodes(address, 1, func(func()) {})
	fmt.Println(url)
	for {
		<-must(nodes[0].Mutex(item, holdfast.WithTTL(ttlOfHolder)).Lock(context.Background())).Done()
	}
}
