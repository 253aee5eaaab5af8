package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// promptQuorum is the engine of a process in the world Quorum. It requires that a grant is answered before its trust
// window closes, counted from when the nodes were last requested.
type promptQuorum struct {
	*quorum.Engine
	p *process
}

// requests are when a process last requested a lease of each resource from a node.
type requests struct {
	mu   sync.Mutex
	last map[engine.Resource]time.Time
}

func (r *requests) note(res engine.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[engine.Resource]time.Time{}
	}
	r.last[res] = time.Now()
}

func (r *requests) latest(res engine.Resource) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[res]
}

// Acquire implements engine.Engine.
func (q *promptQuorum) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	called := time.Now()
	ans, err := q.Engine.Acquire(ctx, r)
	sent := q.p.ballots.latest(r.Resource)
	if err != nil || ans.Status != engine.Granted || sent.Before(called) { // it renewed a lease that it had
		return ans, err
	}
	if ago := time.Since(sent); ago >= ans.TTL-ans.TTL/50-20*time.Millisecond && ago >= ans.TTL/2 {
		q.p.w.violated("late-grant", r.Resource.Name, "a quorum granted a lease of %v to %s %v after the nodes were requested", ans.TTL, q.p.name, ago)
	}
	return ans, err
}
