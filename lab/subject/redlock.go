package subject

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redlock sets the key on N nodes in turn and holds if a majority accepted within the TTL
// minus an allowance for drift. It waits for each node for a short time only.
//
// Holes: a node that restarts empty votes twice; a client's clock that steps; a
// pause after the check, since there is no fencing.
func Redlock() Subject {
	return redlockSubject("redlock", "N nodes, majority within the TTL", redlock{checked: true})
}

// RedlockUnchecked is Redlock without the short timeout of a node, without the check of
// the time that the majority took, and with a DEL that does not compare.
//
// Hole: with slow nodes the majority is complete after the first keys expired.
func RedlockUnchecked() Subject {
	return redlockSubject("redlock-unchecked", "N nodes, majority; DEL everywhere", redlock{blind: true})
}

// RedlockExtendRecreates is Redlock with an extension that sets a missing key again and
// counts it as extended.
//
// Hole: another client had held and released in between, and the extension does not
// report that the hold was interrupted.
func RedlockExtendRecreates() Subject {
	return redlockSubject("redlock-extend-recreates", "redlock, extend sets a missing key again", redlock{checked: true, recreates: true})
}

// RedlockValueReused is Redlock with one value for all tries of an Acquire, and a
// clean-up of failed tries in the background.
//
// Hole: the late clean-up of try 1 deletes the key of try 2.
func RedlockValueReused() Subject {
	return redlockSubject("redlock-value-reused", "redlock, one value over its tries", redlock{checked: true, reused: true})
}

func redlockSubject(id, title string, kind redlock) Subject {
	return Subject{ID: id, Title: title, Nodes: 3, Traits: Traits{Windows: kind.checked, Renews: !kind.blind, Points: true},
		Open: func(s Setup) (Client, error) {
			c := kind
			c.Setup = s
			c.late = &sync.WaitGroup{}
			return &c, nil
		}}
}

type redlock struct {
	Setup
	checked   bool // checks the time that the majority took
	blind     bool // deletes without comparing
	recreates bool // an extension sets a missing key
	reused    bool // one value for all tries of an Acquire, late clean-up
	late      *sync.WaitGroup
}

// Try tries every node once.
func (c *redlock) Try(ctx context.Context, resource string) (Hold, error) {
	return c.try(ctx, resource, rand.Text())
}

// Acquire tries until it holds.
func (c *redlock) Acquire(ctx context.Context, resource string) (Hold, error) {
	value := rand.Text()
	return poll(ctx, c.Setup, func(ctx context.Context) (Hold, error) {
		if !c.reused {
			value = rand.Text()
		}
		return c.try(ctx, resource, value)
	})
}

// Close waits for running clean-ups.
func (c *redlock) Close() error {
	c.late.Wait()
	return nil
}

func (c *redlock) quorum() int { return len(c.Nodes)/2 + 1 }

// drift is the allowance of the published algorithm: 1 % and 2 ms.
func (c *redlock) drift() time.Duration { return c.TTL/100 + 2*time.Millisecond }

func (c *redlock) try(ctx context.Context, resource, value string) (Hold, error) {
	start, votes := c.Clock.Now(), 0
	for i, node := range c.Nodes {
		if c.vote(ctx, node, resource, value) {
			votes++
		}
		if err := c.at(ctx, fmt.Sprintf("acquire.node%d", i+1)); err != nil {
			return nil, err
		}
	}
	until := start.Add(c.TTL - c.drift())
	if votes >= c.quorum() && (!c.checked || c.Clock.Now().Before(until)) {
		return c.held(resource, value, until), nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !c.reused {
		// This compares the value even if the release does not: a failed try that deletes
		// another's key is the hole of set-nx-del, not of this lock.
		_, err := c.everywhere(ctx, "cleanup", compareAndDelete, resource, value)
		if deadly(err) {
			return nil, err
		}
		return nil, ErrBusy
	}
	c.late.Go(func() {
		_, _ = c.everywhere(context.WithoutCancel(ctx), "cleanup", compareAndDelete, resource, value)
	})
	return nil, ErrBusy
}

// vote sends the request to one node. A node that fails, or does not reply in time, counts as a refusal.
func (c *redlock) vote(ctx context.Context, node *redis.Client, resource, value string) bool {
	if c.checked {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.nodeTimeout())
		defer cancel()
	}
	got, err := node.SetNX(ctx, resource, value, c.TTL).Result()
	return err == nil && got
}

// nodeTimeout is how long the published algorithm waits for a node: "5-50 milliseconds", small
// against the TTL.
func (c *redlock) nodeTimeout() time.Duration {
	return min(max(c.TTL/10, 5*time.Millisecond), 50*time.Millisecond)
}

func (c *redlock) releaseScript() string {
	if c.blind {
		return `return redis.call('DEL', KEYS[1])`
	}
	return compareAndDelete
}

// everywhere runs a script on each node in turn and counts the replies of 1. The error is
// that of a point.
func (c *redlock) everywhere(ctx context.Context, step, script, resource string, args ...any) (int, error) {
	yes := 0
	for i, node := range c.Nodes {
		if err := c.at(ctx, fmt.Sprintf("%s.node%d", step, i+1)); err != nil {
			return yes, err
		}
		if n, err := node.Eval(ctx, script, []string{resource}, args...).Int64(); err == nil && n == 1 {
			yes++
		}
	}
	return yes, nil
}

// redlockHold is a hold whose deadline can be extended.
type redlockHold struct {
	*redlock
	resource, value string

	mu    sync.Mutex
	until time.Time // by the client's clock
	over  bool
}

func (c *redlock) held(resource, value string, until time.Time) Hold {
	return &redlockHold{redlock: c, resource: resource, value: value, until: until}
}

func (h *redlockHold) Token() uint64         { return 0 }
func (h *redlockHold) Lost() <-chan struct{} { return nil }

func (h *redlockHold) Within(ctx context.Context) context.Context { return ctx }

func (h *redlockHold) Until() time.Time {
	if !h.checked {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Clock.Real(h.until)
}

func (h *redlockHold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.checked && !h.Clock.Now().Before(h.until) {
		return ErrNotHeld
	}
	return nil
}

const extendOrSet = `
local found = redis.call('GET', KEYS[1])
if found == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not found then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end
return 0`

func (h *redlockHold) Renew(ctx context.Context) error {
	if h.blind {
		return ErrNoRenewal
	}
	script := compareAndExtend
	if h.recreates {
		script = extendOrSet
	}
	start := h.Clock.Now()
	yes, err := h.everywhere(ctx, "renew", script, h.resource, h.value, h.millis())
	until := start.Add(h.TTL - h.drift())
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		return err
	case yes < h.quorum() || !h.Clock.Now().Before(until):
		h.over = true
		return ErrNotHeld
	}
	h.until = until
	return nil
}

func (h *redlockHold) Release(ctx context.Context) error {
	yes, err := h.everywhere(ctx, "release", h.releaseScript(), h.resource, h.value)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if err == nil && yes < h.quorum() {
		return ErrNotHeld
	}
	return err
}
