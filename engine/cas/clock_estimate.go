package cas

import (
	"sync"
	"time"
)

// driftShare is by how much the rates of two clocks may differ: 1 in 1,000. NTP
// corrects at most half of that.
const driftShare = 1000

// clockEstimate estimates the time of a store's clock from its replies. The
// estimate is never ahead of the store's clock as long as that clock is not set
// back and the rates of the clocks differ by less than driftShare: a reply was made
// before it arrived. A machine that was suspended only makes it later.
type clockEstimate struct {
	mu  sync.Mutex
	at  time.Time // of the store
	got time.Time // when that reply arrived; on the monotonic clock
}

// read takes the time in the reply to a request that was sent at an instant of this
// machine's clock. A reply that was long on its way is worth less than the estimate. One
// that was made before the request by the estimate says that the store's clock was set
// back, or that it is another server's after a failover: the estimate begins anew.
func (c *clockEstimate) read(at, sent time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.IsZero() && (c.at.IsZero() || at.After(c.estimate(now)) || at.Before(c.estimate(sent))) {
		c.at, c.got = at, now
	}
}

// early returns the estimate. ok is false before the first reading.
func (c *clockEstimate) early() (t time.Time, ok bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Time{}, false
	}
	return c.estimate(now), true
}

// estimate returns the estimate for an instant. Before the reading it is earlier than the
// reading by more, so that no request seems to be answered before it was sent.
func (c *clockEstimate) estimate(now time.Time) time.Time {
	since := now.Sub(c.got)
	return c.at.Add(since - since.Abs()/driftShare)
}
