package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// fallbackGrant backs leases that were granted without the store. It ends when it is
// released, when the client closes or, with WithoutRenewal, after its TTL.
type fallbackGrant struct {
	acquirer *acquirer
	holder   string     // ID, unknown to the store
	local    *localHold // nil: it excludes no other lease
	since    time.Time
	closes   func() bool // stops the callback that ends it at Close

	mu      sync.Mutex
	leases  leaseSet
	weight  int
	demoted bool // from writer to reader
	ended   bool
	why     *LostError // nil: released
	term    *term      // nil: it lasts until it is released
}

var _ grant = (*fallbackGrant)(nil)

func newFallbackGrant(lk *acquirer, id string, weight int, p *localHold) *fallbackGrant {
	return &fallbackGrant{acquirer: lk, holder: id, local: p, weight: weight, since: time.Now()}
}

// take returns the first lease, unless the client is closed.
func (s *fallbackGrant) take(parent context.Context) (*Lease, error) {
	c := s.acquirer.c
	if !c.gate.JoinCleanup() { // counted until it ends: Close waits for that
		s.local.release()
		return nil, &waitError{s.acquirer.name, ErrClosed, nil}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closes = context.AfterFunc(c.life, func() { s.end(nil) })
	c.counts.fallback.Add(1)
	if s.acquirer.opts.noRenewal {
		s.term = c.newTerm(s.acquirer.opts.ttl, func() { s.open() })
	}
	return s.addLease(parent), nil
}

func (s *fallbackGrant) addLease(parent context.Context) *Lease {
	l := &Lease{grant: s, parent: parent}
	s.leases.add(l)
	return l
}

// end ends the grant, with a reason if it is lost, and its leases, unless it has ended before.
func (s *fallbackGrant) end(why *LostError) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	leases := s.leases
	s.leases, s.ended, s.why = nil, true, why
	s.term.stop()
	s.mu.Unlock()
	defer s.acquirer.c.gate.Leave()
	s.closes()
	for _, l := range leases {
		_ = l.end(s.endError())
	}
	s.local.release()
	s.acquirer.c.counts.fallback.Add(-1)
	if why == nil {
		s.acquirer.released(s.holder, ReleaseEvent{Resource: s.acquirer.name, Kind: string(s.acquirer.kind), Held: time.Since(s.since), HandOff: HandOffFallback}, nil)
		return
	}
	s.acquirer.c.counts.lose(why.Cause)
	s.acquirer.lost(why, time.Since(s.since), nil)
}

func (s *fallbackGrant) resource() string { return s.acquirer.name }

func (s *fallbackGrant) id() string { return s.holder }

func (s *fallbackGrant) tokens(*Lease) map[string]uint64 {
	return map[string]uint64{s.acquirer.name: 0}
}

func (s *fallbackGrant) fallback() Fallback { return s.acquirer.opts.fallback }

// open implements grant. Without the store only the TTL can end the grant.
func (s *fallbackGrant) open() bool {
	s.mu.Lock()
	ended, expired := s.ended, s.term.passed()
	s.mu.Unlock()
	if expired {
		s.end(&LostError{Resource: s.acquirer.name, Cause: LostExpired})
	}
	return !ended && !expired
}

func (s *fallbackGrant) endError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return s.why
	}
	return ErrReleased
}

// deadline returns a TTL from now, as if it had just been renewed.
func (s *fallbackGrant) deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != nil {
		return s.term.deadline()
	}
	return time.Now().Add(s.acquirer.opts.ttl)
}

func (s *fallbackGrant) covers(c *Client, res engine.Resource) bool {
	return s.acquirer.c == c && s.acquirer.resource() == res
}

func (s *fallbackGrant) reenter(own *Lease, parent context.Context, lk *acquirer, weight int) (*Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := reentry(s.acquirer, lk, s.weight, weight); err != nil {
		return nil, err
	}
	if !s.leases.has(own) {
		return nil, nil
	}
	return s.addLease(parent), nil
}

func (s *fallbackGrant) release(_ context.Context, l *Lease, _ time.Duration) error {
	s.mu.Lock()
	held := s.leases.remove(l)
	last := held && len(s.leases) == 0
	s.mu.Unlock()
	err := l.endReleased(held)
	if !last {
		return err
	}
	s.end(nil)
	return err
}

func (s *fallbackGrant) detach(context.Context, *Lease) (string, error) {
	return "", opError("detach", s.acquirer.name, fmt.Errorf("%w: a lease that was granted without the store has no ticket", errors.ErrUnsupported))
}

// demote implements grant. It admits waiting readers of this client.
func (s *fallbackGrant) demote(_ context.Context, l *Lease) error {
	if s.acquirer.kind != engine.KindRW {
		return errNotWriter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := demotable(s.leases, l, s.weight == rwCapacity || s.demoted); err != nil {
		return err
	}
	s.weight, s.demoted = 1, true
	s.local.demote(1)
	return nil
}
