package redistest

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Silence measures how long a server does not respond: the time between two replies to PING. Stalls
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

// WatchSilence sends PING to a server every 10 ms, on its own connection, until Stop.
func WatchSilence(opts *redis.Options) *Silence {
	own := *opts
	own.PoolSize, own.MaxRetries = 1, -1
	ctx, stop := context.WithCancel(context.Background())
	s := &Silence{stop: stop, done: make(chan struct{}), answered: time.Now()}
	go s.watch(ctx, redis.NewClient(&own))
	return s
}

func (s *Silence) watch(ctx context.Context, rdb *redis.Client) {
	defer close(s.done)
	defer rdb.Close()
	every := time.NewTicker(pingEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		if rdb.Ping(ctx).Err() == nil {
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
