package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// breakerPause is the time between two checks whether a silent store answers again.
const breakerPause = time.Second

// breakerMemory is the maximum time between two failures of one silence.
const breakerMemory = 10 * time.Second

// breaker records that the store is silent, so that not every lock with a fallback waits for
// it. It opens when such locks have had no answer for FallbackTimeout, and neither has any renewal or
// other attempt of the client: in a cluster one dead node does not make locks on the others
// fall back. While it is open, the client checks the store every second or two. Any answer
// closes it.
type breaker struct {
	c *Client

	mu      sync.Mutex
	silent  time.Time // when the first unanswered request was sent; zero: none
	latest  time.Time // when the latest of them failed
	answer  time.Time // when another request was answered last
	tripped bool
	looking bool            // a goroutine checks the store
	wanted  engine.Resource // the resource of the latest request

	start     FallbackStartEvent // the latest, and the latest end
	end       FallbackEndEvent
	reported  bool // tripped, as the hooks know it
	reporting bool // a goroutine calls hooks
}

// answered records that the store answered.
func (b *breaker) answered() {
	now := time.Now()
	b.mu.Lock()
	b.answer = now
	left := b.tripped
	if left {
		b.end = FallbackEndEvent{Silent: now.Sub(b.silent)}
	}
	b.silent, b.tripped = time.Time{}, false
	b.mu.Unlock()
	if left {
		b.report()
	}
}

// unanswered records a request that the store did not answer.
func (b *breaker) unanswered(sent time.Time, res engine.Resource, err error) {
	if b.trip(sent, res, err) {
		b.report()
	}
}

// report calls the hooks until they know the present state. One goroutine at a time does that, so that
// they are called in order.
func (b *breaker) report() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reporting {
		return
	}
	b.reporting = true
	defer func() { b.reporting = false }() // also if a hook panics
	for b.reported != b.tripped {
		b.reported = b.tripped
		b.call(b.tripped, b.start, b.end)
	}
}

// call calls the hooks. It unlocks the mutex meanwhile.
func (b *breaker) call(open bool, start FallbackStartEvent, end FallbackEndEvent) {
	b.mu.Unlock()
	defer b.mu.Lock()
	if !open {
		for _, hook := range b.c.hooks.fallbackEnd {
			hook.FallbackEnd(end)
		}
		return
	}
	b.c.log.Warn("holdfast: the store does not respond; locks with a fallback fall back at once until it does")
	for _, hook := range b.c.hooks.fallbackStart {
		hook.FallbackStart(start)
	}
}

// trip reports whether the breaker opens now.
func (b *breaker) trip(sent time.Time, res engine.Resource, err error) bool {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent.IsZero() || sent.Sub(b.latest) > breakerMemory {
		b.silent = sent
		if b.answer.After(sent) { // the store has answered another one since
			b.silent = b.answer
		}
	}
	b.latest = now
	silent := now.Sub(b.silent)
	if b.tripped || silent < FallbackTimeout {
		return false
	}
	if !b.looking {
		if !b.c.gate.JoinCleanup() {
			return false // the client is closed
		}
		b.looking = true
		go b.watch()
	}
	b.tripped, b.wanted, b.start = true, res, FallbackStartEvent{Silent: silent, Err: err}
	return true
}

// open reports whether the store is silent, so that a request for a resource would fail.
func (b *breaker) open(res engine.Resource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tripped {
		b.wanted = res
	}
	return b.tripped
}

// isOpen reports whether the store is silent.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tripped
}

// watch checks the store until it answers, or the client closes.
func (b *breaker) watch() {
	looking := true
	defer func() {
		if looking { // the engine or a hook has ended the goroutine
			go b.watch()
			return
		}
		b.c.gate.Leave()
	}()
	for {
		sleep(b.c.life, breakerPause) // no ticker: a check may take as long
		var res engine.Resource
		if res, looking = b.target(); !looking {
			return
		}
		ctx, cancel := context.WithTimeout(b.c.life, breakerPause)
		_, err := b.c.engine.Peek(ctx, res)
		cancel()
		if !errors.Is(err, ErrUnavailable) && b.c.life.Err() == nil {
			b.answered()
		}
	}
}

// target returns the resource to check with, or false if the breaker or the client has
// closed, which ends watch.
func (b *breaker) target() (engine.Resource, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = b.tripped && b.c.life.Err() == nil
	return b.wanted, b.looking
}
