package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// breakerPause lies between two looks whether a silent store answers again.
const breakerPause = time.Second

// breakerMemory is how far apart two failures may be that tell of one silence.
const breakerMemory = 10 * time.Second

// breaker remembers that the store is silent, so that not every lock with a
// fallback waits for it. It opens when such locks have asked in vain for as long
// as FallbackTimeout and no attempt of the client has had an answer meanwhile: on
// a cluster one dead node does not make locks on the others fall back. While it is
// open the client looks at the store every second or two; any answer closes it.
type breaker struct {
	c *Client

	mu      sync.Mutex
	silent  time.Time // when the first unanswered request was sent; zero: none
	latest  time.Time // when the latest of them failed
	tripped bool
	looking bool            // a goroutine looks at the store
	wanted  engine.Resource // what somebody asked for most recently
}

// answered takes note that the store answered.
func (b *breaker) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent, b.tripped = time.Time{}, false
}

// unanswered takes note of a request that the store did not answer.
func (b *breaker) unanswered(sent time.Time, res engine.Resource) {
	if b.trip(sent, res) {
		b.c.log.Warn("holdfast: the store does not respond; locks with a fallback fall back at once until it does")
	}
}

func (b *breaker) trip(sent time.Time, res engine.Resource) bool {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent.IsZero() || sent.Sub(b.latest) > breakerMemory {
		b.silent = sent
	}
	b.latest = now
	if b.tripped || now.Sub(b.silent) < FallbackTimeout {
		return false
	}
	if !b.looking {
		if !b.c.gate.JoinCleanup() {
			return false // the client is closed
		}
		b.looking = true
		go b.watch()
	}
	b.tripped, b.wanted = true, res
	return true
}

// open tells whether there is no use in asking about a resource.
func (b *breaker) open(res engine.Resource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tripped {
		b.wanted = res
	}
	return b.tripped
}

// watch looks at the store until it has answered, or the client closes.
func (b *breaker) watch() {
	defer b.c.gate.Leave()
	for sleep(b.c.life, breakerPause) { // no ticker: a look may take as long
		res, silent := b.target()
		if !silent {
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

// target returns what to look at, or false if the breaker has closed: then the
// watch ends.
func (b *breaker) target() (engine.Resource, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = b.tripped
	return b.wanted, b.tripped
}
