package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelName is what Sentinels of this package call their master.
const SentinelName = "main"

// downAfter is the silence after which the Sentinels take a server for dead.
const downAfter = time.Second

// Sentinel is a master with two replicas, watched by three Sentinels. Its
// methods are for the goroutine of the test, which fails if one cannot do its
// work.
type Sentinel struct {
	*Replicated
	watchers []*Server
	apart    *Server // taken away by Split
}

// StartSentinel launches the six servers for one test and ends them with the
// test. The options go to the three that have data. The Sentinels take a master
// for dead that is silent for a second.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	s := &Sentinel{Replicated: StartReplicated(t, 2, opts...)}
	for range 3 {
		w, err := Launch(watching(s.master))
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		w.fatal = t.Fatalf
		t.Cleanup(w.Stop)
		s.watchers = append(s.watchers, w)
		if w.Since(7, 0) {
			// More often than usual, and no rest after a slow moment of the machine.
			w.operate([]any{"sentinel", "debug", "info-period", 500, "ping-period", 500, "ask-period", 100,
				"publish-period", 200, "tilt-trigger", 20000})
		}
	}
	s.AwaitWatched()
	return s
}

// watching makes a server a Sentinel.
func watching(master *Server) Option {
	return func(c *config) {
		c.sentinel = []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 2", SentinelName, master.port),
			fmt.Sprintf("sentinel down-after-milliseconds %s %d", SentinelName, downAfter.Milliseconds()),
			"sentinel failover-timeout " + SentinelName + " 3000",
			"sentinel parallel-syncs " + SentinelName + " 2",
		}
		if p := master.conf.password; p != "" {
			c.sentinel = append(c.sentinel, "sentinel auth-pass "+SentinelName+" "+p)
		}
	}
}

// sentinelArguments writes the file that a Sentinel keeps its state in, unless
// it has one from before.
func sentinelArguments(dir string, port int, directives []string) ([]string, error) {
	path := filepath.Join(dir, "sentinel-"+strconv.Itoa(port)+".conf")
	if _, err := os.Stat(path); err != nil {
		lines := append([]string{"bind 127.0.0.1", fmt.Sprint("port ", port), "dir " + dir}, directives...)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, err
		}
	}
	return []string{path, "--sentinel"}, nil
}

// Watchers lists the three Sentinels.
func (s *Sentinel) Watchers() []*Server { return append([]*Server(nil), s.watchers...) }

// Addrs lists the host:port of the three Sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.watchers))
	for i, w := range s.watchers {
		addrs[i] = w.Addr()
	}
	return addrs
}

// URL names the master as redis+sentinel://host:port,host:port,…/name
func (s *Sentinel) URL() string {
	return "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + SentinelName
}

// Client returns a new client that asks the Sentinels for the master, with
// go-redis's default options, changed by the given functions. It is closed with
// the test.
func (s *Sentinel) Client(change ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: SentinelName, SentinelAddrs: s.Addrs(), Password: s.master.conf.password}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewFailoverClient(o)
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// FailOver makes the Sentinels promote a replica at once, be the master dead or
// alive, and returns the new master when all of them know it.
func (s *Sentinel) FailOver() *Server {
	s.t.Helper()
	// The others are told of this one after it, in up to 2 s on Redis 6.2. Those that
	// meanwhile took a dead master for dead would begin one of their own, to the other
	// replica.
	s.takeForDead(topologyTimeout)
	defer s.takeForDead(downAfter)
	old := s.master
	Await(s.t, topologyTimeout, "a Sentinel fails over", func() bool {
		if s.watchers[0].monitored()["port"] != strconv.Itoa(old.port) {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
		defer cancel()
		_ = s.watchers[0].do(ctx, func(ctx context.Context, c *redis.Client) error {
			return c.Do(ctx, "sentinel", "failover", SentinelName).Err()
		}) // it has begun already, or it does not know the replicas yet, or it has given up: again
		return false
	})
	return s.AwaitFailOver()
}

// takeForDead says after which silence the Sentinels take a server for dead.
func (s *Sentinel) takeForDead(silence time.Duration) {
	s.t.Helper()
	for _, w := range s.watchers {
		w.operate([]any{"sentinel", "set", SentinelName, "down-after-milliseconds", silence.Milliseconds()})
	}
}

// AwaitFailOver waits until all Sentinels name another master than Master did,
// and the living replicas follow it; Master names it from then on.
func (s *Sentinel) AwaitFailOver() *Server {
	s.t.Helper()
	old := s.master
	Await(s.t, topologyTimeout, "the Sentinels have a new master", func() bool {
		next := s.elected()
		if next == nil || next == old {
			return false
		}
		s.master = next
		return true
	})
	Await(s.t, topologyTimeout, "the replicas follow it", func() bool {
		return s.master.leads(s.Replicas())
	})
	return s.master
}

// AwaitWatched waits until every Sentinel knows the living replicas and the
// other Sentinels, and thinks that all is well.
func (s *Sentinel) AwaitWatched() {
	s.t.Helper()
	Await(s.t, topologyTimeout, "the Sentinels know everybody", func() bool {
		for _, w := range s.watchers {
			state := w.monitored()
			if state["flags"] != "master" || state["num-other-sentinels"] != "2" || state["port"] != strconv.Itoa(s.master.port) ||
				!w.seesReplicas(len(s.Replicas())) {
				return false
			}
		}
		return true
	})
}

// elected returns the server that all Sentinels name as the master, or nil.
func (s *Sentinel) elected() *Server {
	var port string
	for i, w := range s.watchers {
		p := w.monitored()["port"]
		if i > 0 && p != port {
			return nil
		}
		port = p
	}
	for _, n := range s.nodes {
		if strconv.Itoa(n.port) == port {
			return n
		}
	}
	return nil
}

// monitored is what a Sentinel knows of the master; nil if it does not answer.
func (s *Server) monitored() map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	state, _ := c.Master(ctx, SentinelName).Result()
	return state
}

// seesReplicas reports whether a Sentinel could promote n replicas.
func (s *Server) seesReplicas(n int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))})
	defer c.Close()
	all, _ := c.Replicas(ctx, SentinelName).Result()
	ready := 0
	for _, r := range all {
		if r["flags"] == "slave" && r["master-link-status"] == "ok" && r["slave-repl-offset"] != "0" {
			ready++
		}
	}
	return ready >= n
}
