package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A process that dies in Acquire leaves its try on some nodes, where nobody can tell
// it from a lease. So a lease of more than longestTry is granted for the claim window
// first and prolonged when the grant is certain. What is left of a try ends within
// longestTry, and a node that has more of a lease was told that it was granted.

// longestTry is the longest TTL that is asked for before the grant is certain.
const longestTry = time.Minute

// brief tells whether a lease is granted for the claim window first.
func brief(ttl time.Duration) bool { return ttl > longestTry }

// isBrief tells whether the lease has yet to be prolonged.
func (t *round) isBrief() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.brief
}

// prolong gives a lease that was granted for the claim window its TTL. Nobody was told
// of it yet: if it has ended meanwhile, the attempt has not.
func (e *Engine) prolong(ctx context.Context, a *attempt, ttl time.Duration) (engine.Answer, error) {
	t, _ := a.standing()
	if t == nil {
		return engine.Answer{}, fmt.Errorf("%w: quorum: it was withdrawn", engine.ErrUnavailable)
	}
	sent := time.Now()
	err := e.renewOne(ctx, &attempt{}, t, ttl)
	var gone *engine.NotHeldError
	switch {
	case errors.As(err, &gone) && gone.Cause == engine.CauseBroken:
		a.end(gone.Cause)
		return engine.Answer{}, &engine.EndedError{Cause: gone.Cause}
	case errors.As(err, &gone):
		a.lose(t)
		return engine.Answer{}, fmt.Errorf("%w: quorum: the grant ended before it was prolonged", engine.ErrUnavailable)
	case err != nil:
		return engine.Answer{}, err
	}
	t.mu.Lock()
	t.brief, t.long = false, ttl
	for _, n := range t.e.nodes {
		t.owe(n) // it may have granted after it was asked to prolong
	}
	t.mu.Unlock()
	a.mu.Lock()
	a.extend(sent, ttl)
	a.mu.Unlock()
	return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, nil
}
