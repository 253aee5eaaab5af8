package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockContender is rueidislock with the two options that its README
// recommends for one Redis of 7.0.5 or newer. It does not poll: it waits for
// the invalidations of client-side caching.
//
// TryNextAfter, the time that a single SET may take, is raised from 20 ms: after
// a SET that took longer it waits for an invalidation that NOLOOP keeps back,
// and on a resource that nobody else wants, for ever. It was seen here with 64
// callers that started at once.
func rueidislockContender(name string) contender {
	return contender{
		name: name, role: peer, leaseEnd: keyEnd("rueidislock:0:"),
		sends: []string{"evalsha", "eval", "ping"},
		open: func(s settings) (party, error) {
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
			return rueidislockParty{l}, nil
		},
	}
}

type rueidislockParty struct{ l rueidislock.Locker }

func (p rueidislockParty) lock(resource string) lock {
	return &rueidislockLock{l: p.l, name: resource}
}
func (p rueidislockParty) close() { p.l.Close() }

type rueidislockLock struct {
	l       rueidislock.Locker
	name    string
	release context.CancelFunc
}

func (r *rueidislockLock) Lock(ctx context.Context) (err error) {
	_, r.release, err = r.l.WithContext(ctx, r.name)
	return err
}

func (r *rueidislockLock) Unlock(context.Context) error {
	r.release()
	return nil
}
