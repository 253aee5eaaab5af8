package live

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// store is one store of a run. It is a fault.Store; what comes too late, because
// the machine is slow, changes nothing.
type store struct {
	url    string
	server stores.Server // nil: the Runner does not own it
	once   bool          // the server is of one run

	mu    sync.Mutex
	down  bool // it was killed
	again bool // it was started again in this run
	wipes []wipe
	rolls []rollBack
	copy  rollBack // what is known of the latest copy
	slow  *redistest.SlowDisk
}

// wipe is a loss of all data. What was granted before has a token below.
type wipe struct {
	at    time.Duration
	below uint64
}

// address is the store's host:port.
func (s *store) address() (string, error) {
	u, err := url.Parse(s.url)
	if err != nil {
		return "", err
	}
	return u.Host, nil
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

// reset starts the store if it is down, and empties a Redis.
func (s *store) reset(ctx context.Context) error {
	s.revive()
	if err := s.settle(); err != nil {
		return err
	}
	if !s.redis() {
		return nil // each run has a prefix of its own
	}
	return s.client(func(c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

func (s *store) redis() bool { return strings.HasPrefix(s.url, "redis:") }

// client makes a connection to a Redis for one use.
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
	if s.down {
		s.restart()
	}
}

// Kill ends the server.
func (s *store) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.server.Kill()
		s.down = true
	}
}

// Pause stops the server.
func (s *store) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.server.Pause()
	}
}

// Resume continues it.
func (s *store) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.server.Resume()
	}
}

// Restart starts it again.
func (s *store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

// restart needs the mutex.
func (s *store) restart() {
	s.server.Restart()
	s.down, s.again = false, true
}

// empty removes the data of a server that was killed.
func (s *store) empty(now func() time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Kill()
	s.down = true
	s.wipes = append(s.wipes, wipe{at: now(), below: s.micros()})
	return s.server.(stores.Emptier).Empty()
}

// clock returns the wall clock of the server.
func (s *store) clock() redistest.RatedClock {
	if rated, ok := s.server.(interface{ Clock() redistest.RatedClock }); ok {
		return rated.Clock()
	}
	return redistest.RatedClock{}
}

// micros is what the wall clock of the server shows, in microseconds.
func (s *store) micros() uint64 { return uint64(s.clock().At(time.Now().Round(0)).UnixMicro()) }

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

// replicated returns the server if its replicas can take over, else nil.
func (s *store) replicated() stores.Replicated {
	g, _ := s.server.(stores.Replicated)
	return g
}

// failOver promotes a replica.
func (s *store) failOver() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicated().FailOver()
}

// HoldBack implements fault.Replicator.
func (s *store) HoldBack() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return redistest.Try(s.replicated().HoldBack)
}

// LetOn implements fault.Replicator.
func (s *store) LetOn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return redistest.Try(s.replicated().LetOn)
}

// SlowDown implements fault.Writer. It does nothing if the store is down.
func (s *store) SlowDown(by time.Duration) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.slow, err = s.server.(stores.Writer).SlowDisk(by)
	}
	return err
}

// SpeedUp implements fault.Writer.
func (s *store) SpeedUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow == nil {
		return nil
	}
	slow := s.slow
	s.slow = nil
	return slow.End()
}

// settle waits until each replica of a store that lives has the data of its master.
func (s *store) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.replicated(); g != nil {
		return g.Settle()
	}
	return nil
}

// servers are the URLs of the servers of Redis that have the data.
func (s *store) servers() []string {
	if g := s.replicated(); g != nil {
		return g.Nodes()
	}
	if s.redis() {
		return []string{s.url}
	}
	return nil
}

// eternal lists keys of a Redis below a prefix that would live for ever.
func (s *store) eternal(ctx context.Context, prefix string) (names []string, err error) {
	for _, url := range s.servers() { // of other stores the tests of the engine have it
		err := (&store{url: url}).client(func(c *redis.Client) error {
			more, err := eternalOf(ctx, c, prefix)
			names = append(names, more...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// eternalOf is eternal of one server, which may be a replica.
func eternalOf(ctx context.Context, c *redis.Client, prefix string) (names []string, err error) {
	conn := c.Conn()
	defer conn.Close()
	_ = conn.ReadOnly(ctx).Err() // a replica of a cluster answers then; others do not know it
	for it := c.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !it.Next(ctx) {
			return names, it.Err()
		}
		if !strings.Contains(it.Val(), prefix) {
			continue
		}
		ttl, err := conn.PTTL(ctx, it.Val()).Result()
		if err != nil {
			return nil, err
		}
		if ttl == -1 {
			names = append(names, it.Val())
		}
	}
}
