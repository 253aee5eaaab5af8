package scenario

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Env has the servers and client processes of runs, which use them one after the
// other. Servers are emptied before each run. Both are started on first use.
type Env struct {
	catalog subject.Catalog

	mu     sync.Mutex
	stores []*redistest.Server // where locks are kept
	data   *redistest.Server   // the protected side
	spare  *redistest.Server   // becomes a replica
	procs  map[string]*process.Process
}

// NewEnv returns an Env without servers or processes. The subjects of its runs are
// found in catalog. It serves one run at a time.
func NewEnv(catalog subject.Catalog) *Env {
	return &Env{catalog: catalog, procs: map[string]*process.Process{}}
}

// Close ends all servers and processes.
func (e *Env) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range append(e.stores, e.data, e.spare) {
		if s != nil {
			s.Stop()
		}
	}
	for _, p := range e.procs {
		_ = p.Kill() // it may have ended before
	}
	e.stores, e.data, e.spare, e.procs = nil, nil, nil, map[string]*process.Process{}
}

// nodes returns n empty stores.
func (e *Env) nodes(ctx context.Context, n int) ([]*redistest.Server, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.stores) < n {
		s, err := launch()
		if err != nil {
			return nil, err
		}
		e.stores = append(e.stores, s)
	}
	for _, s := range e.stores[:n] {
		if err := empty(ctx, s); err != nil {
			return nil, err
		}
	}
	return e.stores[:n], nil
}

// protected returns the empty server of the protected side.
func (e *Env) protected(ctx context.Context) (*redistest.Server, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return one(ctx, &e.data)
}

// replica returns a replica of master that is up to date.
func (e *Env) replica(ctx context.Context, master string) (*redistest.Server, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := one(ctx, &e.spare)
	if err != nil {
		return nil, err
	}
	return s, follow(ctx, s, master)
}

// one returns an empty server, which it starts the first time.
func one(ctx context.Context, s **redistest.Server) (*redistest.Server, error) {
	if *s == nil {
		fresh, err := launch()
		if err != nil {
			return nil, err
		}
		*s = fresh
	}
	return *s, empty(ctx, *s)
}

// empty deletes all data of a server; it restarts, without data, a server that was killed.
func empty(ctx context.Context, s *redistest.Server) error {
	if s.PID() == 0 {
		s.Restart()
		return nil
	}
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	if err := c.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
		return err
	}
	return c.FlushAll(ctx).Err()
}

// client returns the process of a client: a new process if the last was killed.
func (e *Env) client(who string) (*process.Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.procs[who]; p != nil && p.Alive() {
		return p, nil
	}
	p, err := process.Start()
	if err != nil {
		return nil, fmt.Errorf("client %s: %w", who, err)
	}
	e.procs[who] = p
	return p, nil
}

// launch starts a server that begins the synchronization of a replica at once.
func launch() (*redistest.Server, error) {
	return redistest.Launch(redistest.WithArgs("--repl-diskless-sync-delay", "0"))
}
