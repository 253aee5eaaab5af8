package holdfast

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/engine"
)

// Stats is a snapshot of a client, for a debug page of the program. See
// [Client.Stats]. Its parts are read one after the other, so they may differ by
// what happened meanwhile.
type Stats struct {
	Leases         int // held in the store
	Lingering      int // of them: kept after their last release; see WithLinger
	FallbackLeases int // granted without the store, and not released

	WaitProcess  int // acquires that wait for a hand-off; see WaitProcess
	WaitStore    int // acquires in queues of the store; see WaitStore
	WaitFallback int // acquires that wait under WithFallback(LocalOnly)

	LateRenewals int  // leases whose latest renewal failed; it is retried
	Releases     int  // releases and withdrawals in the background that are not confirmed
	FallsBack    bool // locks with a fallback fall back at once, since the store is silent

	Losses       Losses       // since New
	Wakeups      uint64       // received since New, also those for waits and leases that have ended
	Subscription Subscription // to wake-ups
	Batches      engine.BatchDepth
}

// Losses are numbers of lost leases by cause; see [LostCause].
type Losses struct {
	Expired, Taken, Deleted, Broken, Unreachable, Elsewhere uint64
}

// A Subscription is the state of a client's subscription to wake-ups. Without
// one, waiters poll each second.
type Subscription string

// The states of a subscription.
const (
	SubscriptionNone    Subscription = "none"    // not needed yet
	SubscriptionOpening Subscription = "opening" // the store has not confirmed it
	SubscriptionLive    Subscription = "live"
	SubscriptionDenied  Subscription = "denied" // the store refused the latest try
)

// Stats returns what the client does at present. It makes no call to the store,
// allocates nothing, and its cost does not grow with the number of leases. It
// may be called at any time, also by a hook and after Close. To publish it:
//
//	expvar.Publish("holdfast", expvar.Func(func() any { return c.Stats() }))
func (c *Client) Stats() Stats {
	s := Stats{
		Lingering:      c.lines.Parked(),
		FallbackLeases: int(c.counts.fallback.Load()),
		WaitProcess:    int(c.counts.waiting[WaitProcess].Load()),
		WaitStore:      int(c.counts.waiting[WaitStore].Load()),
		WaitFallback:   int(c.counts.waiting[WaitFallback].Load()),
		LateRenewals:   c.keep.Late(),
		Releases:       c.releases.len(),
		FallsBack:      c.breaker.isOpen(),
		Wakeups:        c.counts.wakeups.Load(),
		Losses: Losses{
			Expired:     c.counts.lost[LostExpired].Load(),
			Taken:       c.counts.lost[LostTaken].Load(),
			Deleted:     c.counts.lost[LostDeleted].Load(),
			Broken:      c.counts.lost[LostBroken].Load(),
			Unreachable: c.counts.lost[LostUnreachable].Load(),
			Elsewhere:   c.counts.lost[LostElsewhere].Load(),
		},
	}
	s.Leases, s.Subscription = c.wakeups.stats()
	if b, ok := c.engine.(engine.Batcher); ok {
		s.Batches = b.BatchDepth()
	}
	return s
}

// counts are the numbers of Stats that nothing else in the client counts.
type counts struct {
	waiting  [waitQueues]atomic.Int64
	lost     [LostElsewhere + 1]atomic.Uint64
	fallback atomic.Int64
	wakeups  atomic.Uint64
}

func (n *counts) lose(cause LostCause) { n.lost[cause].Add(1) }
