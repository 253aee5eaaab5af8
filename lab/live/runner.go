package live

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Runner has stores and runs one program at a time on them.
type Runner struct {
	own    []*redistest.Server
	others []string // URLs of stores that the Runner does not own
}

// NewRunner returns a Runner that starts redis-servers as programs need them. Without
// a redis-server in PATH the first run fails.
func NewRunner() *Runner { return &Runner{} }

// NewRunnerOn returns a Runner on stores that it does not own, by redis:// URLs: it empties
// and stops nothing there, writes below a prefix of its own, and removes that.
func NewRunnerOn(urls ...string) *Runner { return &Runner{others: urls} }

// Close ends the servers that the Runner has started.
func (l *Runner) Close() {
	for _, s := range l.own {
		s.Stop()
	}
	l.own = nil
}

// stores makes n empty stores ready.
func (l *Runner) stores(ctx context.Context, n int) ([]*store, error) {
	var out []*store
	if l.others != nil {
		if len(l.others) != n {
			return nil, fmt.Errorf("the program needs %d stores, and there are %d", n, len(l.others))
		}
		for _, u := range l.others {
			out = append(out, &store{url: u})
		}
		return out, nil
	}
	for len(l.own) < n {
		// Each write reaches the file before its reply is sent, and a file outlives
		// the process that wrote it: what was answered is kept. Only with
		// appendfsync everysec Redis may put a write off.
		s, err := redistest.Launch(redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "no"))
		if err != nil {
			return nil, err
		}
		l.own = append(l.own, s)
	}
	for _, s := range l.own[:n] {
		fresh := &store{url: s.URL(), server: s}
		if err := fresh.reset(ctx); err != nil {
			return nil, err
		}
		out = append(out, fresh)
	}
	return out, nil
}

// store is one store of a run. It is a fault.Store; what comes too late, because
// the machine is slow, changes nothing.
type store struct {
	url    string
	server *redistest.Server // nil: the Runner does not own it

	mu    sync.Mutex
	wipes []wipe
}

// wipe is a loss of all data. What was granted before has a token below.
type wipe struct {
	at    time.Duration
	below uint64
}

// address is the store's host:port.
func (s *store) address() (string, error) {
	if s.server != nil {
		return s.server.Addr(), nil
	}
	o, err := redis.ParseURL(s.url)
	if err != nil {
		return "", err
	}
	return o.Addr, nil
}

// through is the store's URL by way of a proxy.
func (s *store) through(addr string) (string, error) {
	u, err := url.Parse(s.url)
	if err != nil {
		return "", err
	}
	u.Host = addr
	return u.String(), nil
}

// reset empties the store, after it was started if it is down.
func (s *store) reset(ctx context.Context) error {
	s.revive()
	return s.client(func(c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// client makes a connection for one use.
func (s *store) client(use func(*redis.Client) error) error {
	o, err := redis.ParseURL(s.url)
	if err != nil {
		return err
	}
	c := redis.NewClient(o)
	defer c.Close()
	return use(c)
}

// revive starts the store if it is down.
func (s *store) revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil && s.server.PID() == 0 {
		s.server.Restart()
	}
}

// Kill ends the server.
func (s *store) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Kill()
}

// Pause stops the server.
func (s *store) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server.PID() != 0 {
		s.server.Pause()
	}
}

// Resume continues it.
func (s *store) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server.PID() != 0 {
		s.server.Resume()
	}
}

// Restart starts it again.
func (s *store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Restart()
}

// empty removes the data of a server that was killed.
func (s *store) empty(now func() time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Kill()
	s.wipes = append(s.wipes, wipe{at: now(), below: uint64(time.Now().UnixMicro())})
	return os.RemoveAll(filepath.Join(s.server.Dir(), "appendonlydir"))
}

// clear removes what a run has left below its prefix in a store that the Runner does not own.
func (s *store) clear(ctx context.Context, prefix string) error {
	if s.server != nil {
		return nil
	}
	return s.client(func(c *redis.Client) error {
		for it := c.Scan(ctx, 0, prefix+"*", 1000).Iterator(); ; {
			if !it.Next(ctx) {
				return it.Err()
			}
			if err := c.Unlink(ctx, it.Val()).Err(); err != nil {
				return err
			}
		}
	})
}

// eternal lists keys below a prefix that would live for ever.
func (s *store) eternal(ctx context.Context, prefix string) (names []string, err error) {
	err = s.client(func(c *redis.Client) error {
		for it := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
			if !it.Next(ctx) {
				return it.Err()
			}
			ttl, err := c.PTTL(ctx, it.Val()).Result()
			if err != nil {
				return err
			}
			if ttl == -1 && strings.Contains(it.Val(), prefix) {
				names = append(names, it.Val())
			}
		}
	})
	return names, err
}
