package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// bucketSize is how many keys one lease of etcd deletes when it ends: they are deleted in
	// one step, in which etcd does nothing else.
	bucketSize = 1024
	// bucketsKept is how many buckets a process remembers, so that a key that is written
	// again stays in its bucket.
	bucketsKept = 32
	// inTransit is the longest time from the choice of a bucket to the change that etcd makes.
	inTransit = 10 * time.Second
)

// A bucket is a lease of etcd that keys are attached to so that they vanish. It is granted for twice
// the time that the first key needs, never kept alive, and takes keys as long as it lasts for
// the time that they need.
type bucket struct {
	id   clientv3.LeaseID
	ends time.Time // at the earliest
	keys map[string]struct{}
}

// left returns for how long a bucket lasts at least. A machine that was suspended may show that only by
// its wall clock; a wall clock that is set has no other effect than a further bucket.
func (b *bucket) left(now time.Time) time.Duration {
	return min(b.ends.Sub(now), b.ends.Round(0).Sub(now.Round(0)))
}

// buckets are those that this process has granted and may still use.
type buckets struct {
	api clientv3.Lease

	granting chan struct{} // of capacity 1: one grant at a time

	mu  sync.Mutex
	all []*bucket // the oldest first
}

func newBuckets(api clientv3.Lease) *buckets {
	return &buckets{api: api, granting: make(chan struct{}, 1)}
}

// attach returns the lease to attach a key to that is to be kept for some time from now.
func (bs *buckets) attach(ctx context.Context, key string, keep time.Duration) (clientv3.LeaseID, error) {
	need := keep + inTransit
	if id, ok := bs.find(key, need); ok {
		return id, nil
	}
	select {
	case bs.granting <- struct{}{}:
		defer func() { <-bs.granting }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if id, ok := bs.find(key, need); ok {
		return id, nil
	}
	sent := time.Now()
	resp, err := bs.api.Grant(ctx, int64((2*need+time.Second-1)/time.Second))
	if err != nil {
		return 0, err
	}
	b := &bucket{id: resp.ID, ends: sent.Add(time.Duration(resp.TTL) * time.Second), keys: map[string]struct{}{key: {}}}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.all = append(bs.all, b); len(bs.all) > bucketsKept {
		bs.all = bs.all[1:]
	}
	return b.id, nil
}

// find adds a key to a bucket that lasts long enough, and not much longer. A bucket that has the
// key goes first.
func (bs *buckets) find(key string, need time.Duration) (clientv3.LeaseID, bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	now := time.Now()
	bs.all = slices.DeleteFunc(bs.all, func(b *bucket) bool { return b.left(now) <= 0 })
	var fit *bucket
	for _, b := range bs.all {
		if left := b.left(now); left < need || left/3 > need {
			continue
		}
		if _, ok := b.keys[key]; ok {
			return b.id, true
		}
		if len(b.keys) < bucketSize {
			fit = b
		}
	}
	if fit == nil {
		return 0, false
	}
	fit.keys[key] = struct{}{}
	return fit.id, true
}

// forget drops all buckets, one of which etcd does not have any more.
func (bs *buckets) forget() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.all = nil
}
