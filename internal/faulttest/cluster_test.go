package faulttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// clusterWorld is a cluster with clients, checked for leftovers when the test
// ends.
type clusterFixture struct {
	fixture
	cluster *redistest.Cluster
}

func newClusterFixture(t *testing.T, opts ...redistest.Option) *clusterFixture {
	t.Helper()
	leaktest.Check(t, dialling())
	t.Cleanup(func() { leaktest.Check(t, dialling()) })
	w := &clusterFixture{fixture: *newBareFixture(t), cluster: redistest.StartCluster(t, opts...)}
	w.stores = []engine.Engine{goredis.New(w.cluster.Client())}
	t.Cleanup(func() {
		if !t.Failed() {
			for _, s := range w.cluster.Masters() {
				s.RequireTTLs(t)
			}
			w.nothingLeft()
		}
	})
	return w
}

// client returns a client with connections of its own, closed with the test.
func (w *clusterFixture) client(opts ...holdfast.Option) *holdfast.Client {
	w.t.Helper()
	rdb := w.cluster.Client()
	c, err := holdfast.New(goredis.New(rdb), opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// sources counts how grants came, by the names of holdfast.Source and resynced.
type sources struct {
	mu    sync.Mutex
	count map[string]int
}

// resynced is a grant by a poll before the pause between two polls was over: its client polled for
// all that wait, as it does once when its subscriptions are back.
const resynced = "resync"

func (s *sources) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	source := e.Source.String()
	if e.Source == holdfast.SourcePoll && e.Waited < engine.PollInterval/2 {
		source = resynced
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[source]++
}

// take returns the counts since the last time.
func (s *sources) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.count
	s.count = map[string]int{}
	return got
}

// relay passes every resource from client to client, for so many rounds, and
// returns how the grants came. Every grant but the first of a resource is a
// hand-off between processes.
func relay(t *testing.T, names []string, rounds int, seen *sources, clients ...*holdfast.Client) map[string]int {
	t.Helper()
	var all sync.WaitGroup
	errs := make(chan error, len(names)*len(clients))
	seen.take()
	for _, name := range names {
		for _, c := range clients {
			all.Go(func() {
				m := c.Mutex(name, holdfast.WithoutTenure())
				for range rounds {
					ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
					l, err := m.Lock(ctx)
					cancel()
					if err == nil {
						err = l.Release(context.Background())
						if errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost) {
							err = nil // a master is away; the background gives it back
						}
					}
					if err != nil {
						errs <- fmt.Errorf("%s: %w", name, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	return seen.take()
}

// byPush fails the test if as much as one hand-off in a hundred came by a poll. After slots have moved, the
// subscriptions of the clients may be back only now, so as many as resyncs polls after it do not count.
// If the machine stood still meanwhile, all waiters polled at once, which says nothing: the relay is
// run again.
func (w *clusterFixture) byPush(when string, resyncs int, relay func() map[string]int) {
	w.t.Helper()
	const tries = 5
	for n := 1; ; n++ {
		start := time.Now()
		got := relay()
		stalled := w.stalls.Between(start, time.Now())
		w.t.Logf("%s: %v; the machine stood still for %v", when, got, stalled.Round(time.Millisecond))
		pushed := got[holdfast.SourcePush.String()]
		polled := got[holdfast.SourcePoll.String()] + max(0, got[resynced]-resyncs)
		if pushed > 0 && polled*100 < pushed+polled {
			return
		}
		if stalled < engine.PollInterval/2 || n == tries {
			w.t.Errorf("%s: %d hand-offs came by push, %d by poll", when, pushed, polled)
			return
		}
	}
}

// tag is what a cluster hashes of a resource's keys.
func tag(name string) string {
	return "{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}"
}

// Thirty resources on all masters of a cluster are handed from process to process
// by wake-ups, also after a slot was migrated under them and after a master has
// failed over. Wake-ups go to the shard of the resource; before Redis 7, which has no
// channels of shards, to all nodes.
func TestHandOffsInACluster(t *testing.T) {
	w := newClusterFixture(t)
	seen := &sources{count: map[string]int{}}
	a, b := w.client(holdfast.WithHooks(seen)), w.client(holdfast.WithHooks(seen))
	var names []string
	masters := map[*redistest.Server]int{}
	for i := range 30 {
		names = append(names, fmt.Sprintf("stock:{%d} of 30", i))
		masters[w.cluster.MasterOf(tag(names[i]))]++
	}
	if len(masters) != 3 {
		t.Fatalf("the resources lie on %d masters", len(masters))
	}
	const rounds = 20
	relayed := func() map[string]int { return relay(t, names, rounds, seen, a, b) }
	relay(t, names, 3, seen, a, b) // connections, scripts, subscriptions
	before := w.published()
	w.byPush("at rest", 0, relayed)
	sharded, plain := w.published().since(before)
	if shards := w.cluster.Masters()[0].Since(7, 0); shards && (sharded == 0 || plain*20 > sharded) || !shards && (sharded > 0 || plain == 0) {
		t.Errorf("%d wake-ups went to their shard, %d to all nodes", sharded, plain)
	}

	during := make(chan map[string]int, 1)
	beside := func(change func()) {
		t.Helper()
		go func() { during <- relay(t, names, 4*rounds, seen, a, b) }()
		change()
		t.Logf("meanwhile: %v", <-during)
	}
	beside(func() {
		for _, name := range names[:3] {
			from := w.cluster.MasterOf(tag(name))
			to := w.cluster.Masters()[0]
			if to == from {
				to = w.cluster.Masters()[1]
			}
			w.cluster.Migrate(tag(name), to).Finish()
		}
	})
	w.byPush("after three slots were migrated", len(names), relayed)

	dead := w.cluster.MasterOf(tag(names[5]))
	beside(func() {
		dead.Kill()
		w.cluster.FailOver(dead)
	})
	w.byPush("after a master died", 0, relayed)
	w.cluster.Rejoin(dead)
	beside(func() { w.cluster.FailOver(w.cluster.MasterOf(tag(names[5]))) })
	w.byPush("after a failover in good order", 0, relayed)
}

// published counts messages of scripts, by kind.
type published struct{ sharded, plain int }

func (p published) since(before published) (sharded, plain int) {
	return p.sharded - before.sharded, p.plain - before.plain
}

func (w *clusterFixture) published() (sum published) {
	w.t.Helper()
	for _, s := range w.cluster.Masters() {
		info := s.Client().Info(w.t.Context(), "commandstats").Val()
		for line := range strings.Lines(info) {
			var n int
			if _, err := fmt.Sscanf(line, "cmdstat_spublish:calls=%d", &n); err == nil {
				sum.sharded += n
			}
			if _, err := fmt.Sscanf(line, "cmdstat_publish:calls=%d", &n); err == nil {
				sum.plain += n
			}
		}
	}
	return sum
}
