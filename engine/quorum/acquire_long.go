package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// maxProvisionalTTL is the longest TTL that is requested before the grant is certain. If a
// process dies in Acquire, its ballot remains on some nodes, where it looks like a lease. So a
// longer lease is granted for the claim window first, and gets its full TTL when the grant is
// certain. A ballot that failed then expires within maxProvisionalTTL; if a lease has more time
// left on a node, it was granted.
const maxProvisionalTTL = time.Minute

// isLong reports whether a lease is granted for the claim window first.
func isLong(ttl time.Duration) bool { return ttl > maxProvisionalTTL }

// isProvisional reports whether the lease does not have its full TTL yet.
func (t *quorumLease) isProvisional() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.provisional
}

// grantFullTTL extends a lease that was granted for the claim window. Its Acquire has not
// returned yet: if the lease has ended meanwhile, the attempt goes on.
func (e *Engine) grantFullTTL(ctx context.Context, a *attemptState, ttl time.Duration) (engine.Answer, error) {
	t, _ := a.status()
	if t == nil {
		return engine.Answer{}, errWithdrawn
	}
	sent := time.Now()
	err := e.renewOne(ctx, &attemptState{}, t, ttl)
	gone, ok := errors.AsType[*engine.NotHeldError](err)
	switch {
	case ok && gone.Cause == engine.CauseBroken:
		a.end(*gone)
		return engine.Answer{}, a.endedError()
	case ok:
		a.withdraw(t)
		return engine.Answer{}, fmt.Errorf("%w: quorum: the grant ended before it had its full TTL", engine.ErrUnavailable)
	case err != nil:
		return engine.Answer{}, err
	}
	t.mu.Lock()
	t.provisional, t.fullTTL = false, ttl
	t.scheduleSyncs() // a node may have granted after it was called to extend
	t.mu.Unlock()
	a.extend(sent, ttl)
	return engine.Answer{Status: engine.Granted, Token: t.token, TTL: ttl}, nil
}
