package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Replicated is a master with replicas, without Sentinels. Its methods are for the goroutine of the
// test and fail the test if they fail.
type Replicated struct {
	t      testing.TB
	nodes  []*Server
	master *Server
}

// StartReplicated launches a master with n replicas for one test and ends them
// with the test. The options are for every server.
func StartReplicated(t testing.TB, n int, opts ...Option) *Replicated {
	t.Helper()
	nodes := startReplicating(t, n+1, opts)
	r := &Replicated{t: t, nodes: nodes, master: nodes[0]}
	for _, s := range nodes[1:] {
		s.follow(r.master)
	}
	r.AwaitReplicas()
	return r
}

// startReplicating launches n servers for one test, whose replicas synchronize at once and without
// a file.
func startReplicating(t testing.TB, n int, opts []Option) []*Server {
	t.Helper()
	opts = append([]Option{WithArgs("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")}, opts...)
	nodes := make([]*Server, n)
	err := StartAll(n, func(i int) (err error) {
		if nodes[i], err = Launch(opts...); err == nil {
			nodes[i].Test = t
			t.Cleanup(nodes[i].Stop)
		}
		return err
	})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return nodes
}

// Master returns the present master, dead or alive.
func (r *Replicated) Master() *Server { return r.master }

// Replicas returns the other living servers.
func (r *Replicated) Replicas() []*Server {
	return slices.DeleteFunc(slices.Clone(r.nodes), func(s *Server) bool { return s == r.master || s.PID() == 0 })
}

// Promote makes the first living replica the master of the others. The old master, if it lives,
// becomes its replica and loses the writes that only it had.
func (r *Replicated) Promote() *Server {
	r.t.Helper()
	old, others := r.master, r.Replicas()
	if len(others) == 0 {
		r.t.Fatalf("redistest: there is no living replica")
	}
	r.master = others[0]
	r.master.operate([]any{"replicaof", "no", "one"})
	for _, s := range others[1:] {
		s.follow(r.master)
	}
	if old.PID() != 0 {
		old.follow(r.master)
	}
	return r.master
}

// Rejoin restarts a dead server as a replica of the present master, and waits
// until all replicas have its data.
func (r *Replicated) Rejoin(s *Server) {
	r.t.Helper()
	s.Restart()
	s.follow(r.master)
	r.AwaitReplicas()
}

// AwaitReplicas waits until all living replicas have the master's data.
func (r *Replicated) AwaitReplicas() {
	r.t.Helper()
	Await(r.t, topologyTimeout, "the replicas have the data", func() bool {
		return r.master.leads(r.Replicas())
	})
}

// leads reports whether a server is the master of the replicas, and they have all its data.
func (s *Server) leads(replicas []*Server) bool {
	info := s.info("replication")
	if !strings.Contains(info, "role:master") || strings.Count(info, "state=online") != len(replicas) {
		return false
	}
	for _, r := range replicas {
		if info := r.info("replication"); !strings.Contains(info, fmt.Sprintf("master_port:%d\n", s.port)) || !strings.Contains(info, "master_link_status:up") {
			return false
		}
	}
	return s.acknowledged(len(replicas))
}

// acknowledged reports whether n replicas acknowledge all writes in time.
func (s *Server) acknowledged(n int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	var wait *redis.Cmd
	err := s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			// WAIT does not wait for a connection without writes. A published message
			// counts as one.
			p.Publish(ctx, "redistest", "")
			wait = p.Do(ctx, "wait", n, 200)
			return nil
		})
		return err
	})
	if err != nil {
		return false
	}
	got, err := wait.Int()
	return err == nil && got >= n
}

// follow makes a server a replica of another.
func (s *Server) follow(master *Server) {
	s.operate([]any{"replicaof", "127.0.0.1", master.port})
}

// operate sends an operator's commands, one after the other.
func (s *Server) operate(commands ...[]any) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	err := s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		for _, args := range commands {
			if err := c.Do(ctx, args...).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.fatal("%s: %v: %v", s.Addr(), commands, err)
	}
}

// info returns a section of INFO, or "" if there is no answer.
func (s *Server) info(section string) string {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	var text string
	_ = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		text = c.Info(ctx, section).Val()
		return nil
	})
	return strings.ReplaceAll(text, "\r", "")
}
