package virtual

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// promptQuorum is the engine of a process in the world Quorum. It requires that a grant is answered before its trust
// window closes, counted from when its ballot was sent.
type promptQuorum struct {
	*quorum.Engine
	p *process
}

// requests are the latest ballots of a process, by holder ID.
type requests struct {
	mu   sync.Mutex
	last map[string]sentBallot
}

// sentBallot is when a ballot was sent first. A lease that lasts is requested again under the ballot's ID.
type sentBallot struct {
	id string
	at time.Time
}

// note records a request to a node, unless that restores a lease where it is missing. Its ID is that of the holder and of the
// ballot; that of a restored lease has one more part.
func (r *requests) note(id string) {
	if strings.Count(id, "~") > 1 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]sentBallot{}
	}
	holder, _, _ := strings.Cut(id, "~")
	if r.last[holder].id != id {
		r.last[holder] = sentBallot{id, time.Now()}
	}
}

func (r *requests) latest(holder string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[holder].at
}

// Acquire implements engine.Engine.
func (q *promptQuorum) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	called := time.Now()
	ans, err := q.Engine.Acquire(ctx, r)
	sent := q.p.ballots.latest(r.ID)
	if err != nil || ans.Status != engine.Granted || sent.Before(called) { // it renewed a lease that it had
		return ans, err
	}
	if ago := time.Since(sent); ago >= ans.TTL-ans.TTL/50-20*time.Millisecond && ago >= ans.TTL/2 {
		q.p.w.violated("late-grant", r.Resource.Name, "a quorum granted a lease of %v to %s %v after its ballot was sent", ans.TTL, q.p.name, ago)
	}
	return ans, err
}
