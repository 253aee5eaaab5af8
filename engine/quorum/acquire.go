package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Acquire implements engine.Engine. It proposes a token to the nodes. The lease is
// granted if a majority grants it before its trust window closes; otherwise the ballot is
// withdrawn. If the request waits, its turn stays on the nodes and the answer is Queued.
func (e *Engine) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if err := e.ready(ctx); err != nil {
		return engine.Answer{}, err
	}
	a := e.attempts.findOrCreate(attemptKey{r.Resource, r.ID})
	if err := a.lock(ctx); err != nil {
		return engine.Answer{}, err
	}
	defer a.unlock()
	if r.Yields.ID != "" {
		err := e.Release(ctx, engine.Release{Resource: r.Resource, Held: r.Yields})
		if err != nil && !notHeld(err) {
			return engine.Answer{}, err
		}
	}
	switch lease, cause := a.status(); {
	case cause != 0:
		return engine.Answer{}, a.endedError()
	case lease != nil:
		return e.confirm(ctx, a, lease, r.TTL)
	}
	waits := r.Queue && r.Ballot == 0
	if waits && e.localQueues.ahead(a) > 0 {
		ahead, _ := e.joinLocalQueue(a)
		return a.queuedAnswer(engine.Answer{}, ahead), nil
	}
	ans, err := e.runBallots(ctx, a, r)
	if _, cause := a.status(); cause != 0 && err != nil {
		err = a.endedError()
	}
	switch {
	case waits && err == nil && ans.Status == engine.Busy:
		ahead, released := e.joinLocalQueue(a)
		if ahead > 0 || released { // ahead: another request of this process has joined the queue first
			a.endTurn()
		}
		return a.queuedAnswer(ans, ahead), nil
	case waits && err == nil && ans.Status == engine.Marked:
		a.endTurn()
		e.localQueues.clear(r.Resource)
	case waits && !unavailable(err):
		a.endTurn()
		e.localQueues.remove(a)
	}
	if !unavailable(err) {
		e.forgetIdle(a)
	}
	return ans, err
}

// joinLocalQueue adds an attempt to the queue of this process, and returns the number of waiters ahead. An
// attempt that was released since its request arrived does not stay in the queue.
func (e *Engine) joinLocalQueue(a *attemptState) (ahead int, released bool) {
	ahead = e.localQueues.join(a)
	if _, cause := a.status(); cause != 0 || e.attempts.find(a.attemptKey) != a {
		e.localQueues.remove(a)
		return ahead, true
	}
	return ahead, false
}

// forgetIdle removes an attempt that has nothing on any node.
func (e *Engine) forgetIdle(a *attemptState) {
	a.mu.Lock()
	idle := a.cause == 0 && a.lease == nil && a.turn == nil && len(a.leases) == 0
	a.mu.Unlock()
	if idle {
		e.attempts.remove(a, 0)
	}
}

// queuedAnswer returns the answer to a request that waits, with ahead requests of this process
// before it. busy is the answer of the nodes.
func (a *attemptState) queuedAnswer(busy engine.Answer, ahead int) engine.Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued = true
	return engine.Answer{Status: engine.Queued, Position: ahead + busy.Position, Next: busy.Next}
}

// confirm returns the answer to a repeated request for a live lease, and renews the lease.
func (e *Engine) confirm(ctx context.Context, a *attemptState, lease *quorumLease, ttl time.Duration) (engine.Answer, error) {
	if lease.isProvisional() {
		return e.grantFullTTL(ctx, a, ttl)
	}
	a.mu.Lock()
	ttl = max(ttl, time.Until(a.deadline))
	a.mu.Unlock()
	err := e.renewOne(ctx, a, lease, ttl)
	switch {
	case notHeld(err):
		return engine.Answer{}, a.endedError()
	case err != nil:
		return engine.Answer{}, err
	}
	return engine.Answer{Status: engine.Granted, Token: lease.token, TTL: ttl}, nil
}
