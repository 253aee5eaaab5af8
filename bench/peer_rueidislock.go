package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockContender is rueidislock with the two options that its README recommends
// for one Redis of 7.0.5 or newer. It does not poll: it waits for the invalidations of
// client-side caching.
//
// TryNextAfter, the timeout of a single SET, is raised from 20 ms. After a SET that took
// longer, rueidislock waits for an invalidation that NOLOOP suppresses; on a resource
// without other callers it waits for ever. This happened here when 64 callers started
// at once.
func rueidislockContender(name string) contender {
	return contender{
		name: name, role: peer, background: true, leaseEnd: keyEnd("rueidislock:0:"),
		sends: []string{"evalsha", "eval", "ping"},
		open: func(s settings) (client, error) {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: s.addrs},
				KeyMajority:    1,
				NoLoopTracking: true,
				KeyValidity:    s.ttl,
				TryNextAfter:   min(time.Second, s.ttl/2),
			})
			if err != nil {
				return nil, err
			}
			return rueidislockClient{l}, nil
		},
	}
}

type rueidislockClient struct{ l rueidislock.Locker }

func (p rueidislockClient) lock(resource string) lock {
	return &rueidislockLock{l: p.l, name: resource}
}
func (p rueidislockClient) close() { p.l.Close() }

type rueidislockLock struct {
	l       rueidislock.Locker
	name    string
	release context.CancelFunc
}

// Lock restarts a wait after retryAfter, because after a missed message it would wait
// for ever.
func (r *rueidislockLock) Lock(ctx context.Context) (err error) {
	if ctx.Done() == nil {
		_, r.release, err = r.l.WithContext(ctx, r.name)
		return err
	}
	for {
		attempt, cancel := context.WithCancel(ctx)
		again := time.AfterFunc(retryAfter, cancel)
		_, release, err := r.l.WithContext(attempt, r.name)
		if err == nil && again.Stop() {
			r.release = func() { release(); cancel() }
			return nil
		}
		cancel()
		if err == nil {
			release() // granted at the end of retryAfter
		}
		if ctx.Err() != nil || err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// retryAfter is longer than any wait in a slice without a missed message.
const retryAfter = 5 * time.Second

func (r *rueidislockLock) Unlock(context.Context) error {
	r.release()
	return nil
}
