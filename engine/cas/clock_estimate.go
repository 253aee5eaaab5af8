package cas

import (
	"sync"
	"time"
)

const (
	// driftShare is by how much the rates of two clocks may differ: 1 in 50, as the margin
	// of a trust window allows for.
	driftShare = 50
	// readingLife is after how long the store's clock is read anew before it is needed: a
	// lease lasts longer in the store by what the rates may have made of that time.
	readingLife = 250 * time.Millisecond
)

// clockEstimate estimates the time of a store's clock from its replies: it was at most what
// the reply contains when the request was sent, and at least that when the reply arrived.
// The estimate holds as long as the store's clock is not set, this machine is not
// suspended, and the rates of their clocks differ by less than driftShare.
type clockEstimate struct {
	mu    sync.Mutex
	shown time.Time // by the store's clock
	sent  time.Time // when the request was, on this machine's monotonic clock
	got   time.Time // when the reply was
}

// read takes the time in the reply to a request that was sent at an instant of this
// machine's clock. A reply that was long on its way is worth less than the estimate. One
// that contradicts the estimate says that one of the clocks was set, or that the store is
// another server after a failover: the estimate begins anew.
func (c *clockEstimate) read(at, sent time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.IsZero() {
		return
	}
	early, _ := c.bounds(now)
	least, _ := c.bounds(sent)
	if c.shown.IsZero() || at.After(early) || at.Before(least) {
		c.shown, c.sent, c.got = at, sent, now
	}
}

// at returns the bounds between which the store's time is at an instant of this machine's
// clock. ok is false if there is no recent reading.
func (c *clockEstimate) at(now time.Time) (early, late time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown.IsZero() {
		return time.Time{}, time.Time{}, false
	}
	early, late = c.bounds(now)
	return early, late, now.Sub(c.got) <= readingLife
}

// bounds returns the bounds for an instant of this machine's clock.
func (c *clockEstimate) bounds(now time.Time) (early, late time.Time) {
	return c.shown.Add(slow(now.Sub(c.got))), c.shown.Add(fast(now.Sub(c.sent)))
}

// slow returns a span as the slowest clock measures it, fast as the fastest one does.
func slow(d time.Duration) time.Duration { return d - d.Abs()/driftShare }
func fast(d time.Duration) time.Duration { return d + d.Abs()/driftShare }
