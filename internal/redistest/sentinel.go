package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelName is the name of the master for the Sentinels of this package.
const SentinelName = "main"

// downAfter is how long a server may be silent before the Sentinels consider it dead.
const downAfter = time.Second

// Sentinel is a master with two replicas and three Sentinels. Its methods are for the goroutine of
// the test and fail the test if they fail.
type Sentinel struct {
	*Replicated
	watchers []*Server
	apart    *Server // separated by Split
}

// StartSentinel launches the six servers for one test and ends them with the test. The options are
// for the master and its replicas. The Sentinels consider a master dead after a second of silence.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	s := &Sentinel{Replicated: StartReplicated(t, 2, opts...)}
	for range 3 {
		w, err := Launch(watching(s.master))
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		w.Test = t
		t.Cleanup(w.Stop)
		s.watchers = append(s.watchers, w)
		if w.Since(7, 0) {
			// Check more often than by default, and without TILT mode, which pauses a
			// Sentinel after the machine was slow.
			w.operate([]any{"sentinel", "debug", "info-period", 500, "ping-period", 500, "ask-period", 100,
				"publish-period", 200, "tilt-trigger", 20000})
		}
	}
	s.AwaitWatched()
	return s
}

// watching makes a server a Sentinel of master.
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

// sentinelArguments returns the arguments of a Sentinel. It writes the Sentinel's configuration
// file, in which the Sentinel keeps its state, unless the file exists.
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

// Watchers returns the three Sentinels.
func (s *Sentinel) Watchers() []*Server { return append([]*Server(nil), s.watchers...) }

// Addrs returns the host:port of the three Sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.watchers))
	for i, w := range s.watchers {
		addrs[i] = w.Addr()
	}
	return addrs
}

// URL returns the master's URL, redis+sentinel://host:port,host:port,…/name
func (s *Sentinel) URL() string {
	return "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + SentinelName
}

// Client returns a new client that finds the master by the Sentinels, with go-redis's default
// options, changed by the given functions. It is closed with the test.
func (s *Sentinel) Client(change ...func(*redis.FailoverOptions)) *redis.Client {
	o := &redis.FailoverOptions{MasterName: SentinelName, SentinelAddrs: s.Addrs(), Password: s.master.conf.password}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewFailoverClient(o)
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// FailOver makes the Sentinels promote a replica at once, whether the master is dead or alive, and
// returns the new master when all Sentinels name it.
func (s *Sentinel) FailOver() *Server {
	s.t.Helper()
	// On Redis 6.2 the other Sentinels detect this failover up to 2 s after it. If they
	// considered the master dead meanwhile, they would begin another failover, to the other
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
		}) // try again if it has begun already, does not know the replicas yet, or has failed
		return false
	})
	return s.AwaitFailOver()
}

// takeForDead sets how long a server may be silent before the Sentinels consider it dead.
func (s *Sentinel) takeForDead(silence time.Duration) {
	s.t.Helper()
	for _, w := range s.watchers {
		w.operate([]any{"sentinel", "set", SentinelName, "down-after-milliseconds", silence.Milliseconds()})
	}
}

// AwaitFailOver waits until all Sentinels name a new master and the living replicas follow it.
// Master then returns it. If they fail over once more meanwhile, it is the latest.
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
	// The order to fail over may have been repeated just when it had been carried out: then there is another failover.
	Await(s.t, topologyTimeout, "the replicas follow it", func() bool {
		if next := s.elected(); next != nil && next != old {
			s.master = next
		}
		return s.master.leads(s.Replicas())
	})
	return s.master
}

// AwaitHealthy waits until all servers run, all Sentinels name one master, the other servers have its data, and the
// Sentinels see no server as down. Master then returns that master, whatever failovers there were.
func (s *Sentinel) AwaitHealthy() {
	s.t.Helper()
	Await(s.t, topologyTimeout, "the Sentinels name one master, which the others follow, and have found all servers", func() bool {
		master := s.elected()
		if master == nil || master.PID() == 0 {
			return false
		}
		s.master = master
		return master.leads(s.Replicas()) && s.watched()
	})
}

// Names reports whether all Sentinels name a server as the master.
func (s *Sentinel) Names(master *Server) bool { return s.elected() == master }

// Nodes returns the master and its replicas, also dead ones, in the order of their start.
func (s *Sentinel) Nodes() []*Server { return append([]*Server(nil), s.nodes...) }

// AwaitWatched waits until every Sentinel knows the living replicas and the
// other Sentinels, and sees no server as down.
func (s *Sentinel) AwaitWatched() {
	s.t.Helper()
	Await(s.t, topologyTimeout, "the Sentinels have found all servers", s.watched)
}

// watched reports whether every Sentinel knows the master, the living replicas and the other Sentinels, and sees none as down.
func (s *Sentinel) watched() bool {
	for _, w := range s.watchers {
		state := w.monitored()
		if state["flags"] != "master" || state["num-other-sentinels"] != "2" || state["port"] != strconv.Itoa(s.master.port) ||
			!w.seesReplicas(len(s.Replicas())) {
			return false
		}
	}
	return true
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

// monitored returns a Sentinel's state of the master, or nil if it does not answer.
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
	c := redis.NewSentinelClient(&redis.Options{Addr: loopback(s.port)})
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
