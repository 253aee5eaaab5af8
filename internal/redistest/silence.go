package redistest

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Silence measures how long a server does not respond: the time between two replies to pings. Stalls
// of the connection and of this process count too.
type Silence struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	answered time.Time // time of the last reply
	long     []stall   // the silences of at least leastSilence that have ended
}

const (
	pingEvery    = 10 * time.Millisecond
	leastSilence = 100 * time.Millisecond
)

// WatchSilence sends PING to a Redis every 10 ms, on its own connection, until Stop.
func WatchSilence(opts *redis.Options) *Silence {
	own := *opts
	own.PoolSize, own.MaxRetries = 1, -1
	rdb := redis.NewClient(&own)
	return WatchSilenceOf(func(ctx context.Context) error { return rdb.Ping(ctx).Err() }, func() { _ = rdb.Close() })
}

// WatchSilenceOf calls ping every 10 ms until Stop, and then end. Ping returns an error if there
// was no reply.
func WatchSilenceOf(ping func(context.Context) error, end func()) *Silence {
	ctx, stop := context.WithCancel(context.Background())
	s := &Silence{stop: stop, done: make(chan struct{}), answered: time.Now()}
	go s.watch(ctx, ping, end)
	return s
}

func (s *Silence) watch(ctx context.Context, ping func(context.Context) error, end func()) {
	defer close(s.done)
	defer end()
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		if ping(ctx) == nil {
			s.answer(time.Now())
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

func (s *Silence) answer(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.answered) >= leastSilence {
		s.long = append(s.long, stall{s.answered, now})
	}
	s.answered = now
}

// Since returns the longest silence that ended after t, or has not ended yet.
func (s *Silence) Since(t time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := time.Since(s.answered)
	for _, one := range s.long {
		if one.to.After(t) {
			longest = max(longest, one.to.Sub(one.from))
		}
	}
	return longest
}

// Stop ends the measurement.
func (s *Silence) Stop() {
	s.stop()
	<-s.done
}
