package subject

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ReentrantHash counts entries in a hash field named after service and thread,
// with a timer that renews.
//
// Holes: at each tick the repeating timer starts another one, so that their number
// doubles each third of the TTL and they outlive the unlock; an acquire that is repeated
// after a lost reply counts twice and is never freed, because the timers renew it.
func ReentrantHash() Subject {
	return Subject{ID: "reentrant-hash", Title: "hash of service:thread -> count, renewed by timers", Nodes: 1,
		Traits: Traits{Renews: true, Keeps: true, Points: true}, Open: openReentrantHash}
}

const (
	hashAcquire = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 1
end
return 0`
	hashRelease = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) == 0 then redis.call('DEL', KEYS[1]) end
return 1`
	hashRenew = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`
)

type reentrantHash struct {
	polling
	service string
	threads atomic.Int64
	ctx     context.Context // of the timers; ended by Close
	cancel  context.CancelFunc
	timers  sync.WaitGroup
}

func openReentrantHash(s Setup) (Client, error) {
	c := &reentrantHash{service: rand.Text()}
	c.polling = polling{s, c.try}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close simulates the end of the process, which alone ends the timers.
func (c *reentrantHash) Close() error {
	c.cancel()
	c.timers.Wait()
	return nil
}

func (c *reentrantHash) try(ctx context.Context, resource string) (*hold, error) {
	thread := threadOf(ctx)
	if thread == "" {
		thread = fmt.Sprintf("%s:%d", c.service, c.threads.Add(1))
	}
	got, err := c.acquire(ctx, resource, thread)
	if err != nil {
		return nil, err
	}
	if got == 0 {
		return nil, ErrBusy
	}
	renew := func(ctx context.Context) (int64, error) {
		return c.node().Eval(ctx, hashRenew, []string{resource}, thread, c.millis()).Int64()
	}
	c.timer(renew)
	return &hold{thread: thread,
		extend: func(ctx context.Context) error { return heldIf(renew(ctx)) },
		release: func(ctx context.Context) error {
			if err := c.at(ctx, "release.start"); err != nil {
				return err
			}
			n, err := c.node().Eval(ctx, hashRelease, []string{resource}, thread).Int64()
			return heldIf(max(n, 0), err)
		}}, nil
}

// acquire sends the script, and repeats it if the connection broke, as drivers of that
// time do.
func (c *reentrantHash) acquire(ctx context.Context, resource, thread string) (int64, error) {
	for {
		if err := c.at(ctx, "acquire.start"); err != nil {
			return 0, err
		}
		n, err := c.node().Eval(ctx, hashAcquire, []string{resource}, thread, c.millis()).Int64()
		if err == nil || answered(err) || ctx.Err() != nil {
			return n, err
		}
		if err := rest(ctx, defaultRetry); err != nil {
			return 0, err
		}
	}
}

// timer renews at each third of the TTL and, as in the article, starts another timer after
// each renewal.
func (c *reentrantHash) timer(renew func(context.Context) (int64, error)) {
	c.timers.Go(func() {
		tick := time.NewTicker(c.TTL / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-c.ctx.Done():
				return
			}
			if c.at(c.ctx, "renew.start") != nil {
				return
			}
			if n, err := renew(c.ctx); err == nil && n == 1 {
				c.timer(renew)
			}
		}
	})
}
