package live

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

const (
	// pulse is the interval at which a worker looks whether it runs.
	pulse = 2 * time.Millisecond
	// leastStall is the shortest time that counts as a stall.
	leastStall = 5 * time.Millisecond
	// pingEvery is the pause between two changes of a store that measure how long it takes.
	pingEvery = 10 * time.Millisecond
)

// beat calls missed with each time in which this process did not run, until ctx ends.
func beat(ctx context.Context, now func() time.Duration, missed func(from, to time.Duration)) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for last := now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		at := now()
		if at-last-pulse >= leastStall {
			missed(last+pulse, at)
		}
		last = at
	}
}

// watchStores measures the stores until the function that it returns is called.
func (r *run) watchStores() (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var ends []func()
	stop = func() {
		cancel()
		r.watchers.Wait()
		for _, end := range ends {
			end()
		}
	}
	// While the lab does not run, it measures no store.
	r.watchers.Go(func() { beat(ctx, r.rec.Now, func(from, to time.Duration) { r.stall(Stall{From: from, To: to}) }) })
	for _, s := range r.stores {
		if g := s.replicated(); g != nil {
			for _, url := range append(g.Nodes(), g.Finders()...) {
				opts, err := redis.ParseURL(url)
				if err != nil {
					stop()
					return nil, err
				}
				c := redis.NewClient(opts)
				ends = append(ends, func() { _ = c.Close() })
				r.watchers.Go(func() { r.measure(ctx, func() { _ = c.Ping(ctx).Err() }) })
			}
		}
		e, _, end, err := openEngine([]string{s.url}, nil)
		if err != nil {
			stop()
			return nil, err
		}
		ends = append(ends, end)
		res := engine.Resource{Prefix: r.prefix + "-pulse", Name: "pulse"}                       // of its own
		r.watchers.Go(func() { r.measure(ctx, func() { _ = primitivetest.Ping(ctx, e, res) }) }) // the time that it takes counts
	}
	return stop, nil
}

// measure calls a server again and again, and notes when that takes long.
func (r *run) measure(ctx context.Context, call func()) {
	pause := time.NewTicker(pingEvery)
	defer pause.Stop()
	for ctx.Err() == nil {
		from := r.rec.Now()
		call()
		if to := r.rec.Now(); to-from >= leastStall && ctx.Err() == nil {
			r.stall(Stall{From: from, To: to})
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// excuse notes an error that a fault has to explain.
func (r *run) excuse(e excuse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excuses = append(r.excuses, e)
}

// stall notes a stall.
func (r *run) stall(s Stall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalled = append(r.stalled, s)
}

// leaderTimeout bounds the time in which an ensemble elects a leader; three of ZooKeeper on a busy machine took 32 s.
const leaderTimeout = time.Minute

// awaitLeader waits until an ensemble serves the lab: all is not well before.
func (r *run) awaitLeader(ctx context.Context, s *store) error {
	if r.p.store().Members < 2 {
		return nil
	}
	e, _, end, err := openEngine([]string{s.url}, nil)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	for {
		err := primitivetest.Ping(ctx, e, engine.Resource{Prefix: r.prefix + "-leader", Name: "leader"})
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pingEvery):
		case <-ctx.Done():
			return fmt.Errorf("the store did not serve the lab in %v: %w", leaderTimeout, err)
		}
	}
}
