package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// substitute is what leases stand on that were granted without the store. It
// ends when it is released, when the client closes or, WithoutRenewal, after its
// TTL.
type substitute struct {
	lk     *locker
	holder string // an ID that the store does not know
	place  *place // nil: it keeps nobody out
	since  time.Time
	closes func() bool // takes back what ends it at Close

	mu      sync.Mutex
	leases  leaseSet
	weight  int
	demoted bool // from writer to reader
	ended   bool
	why     *LostError  // nil: released
	timer   *time.Timer // nil: renewed
}

var _ footing = (*substitute)(nil)

func newSubstitute(lk *locker, id string, weight int, p *place) *substitute {
	return &substitute{lk: lk, holder: id, place: p, weight: weight, since: time.Now()}
}

// take makes the first lease, unless the client is closed.
func (s *substitute) take(parent context.Context) (*Lease, error) {
	c := s.lk.c
	if !c.gate.join() { // it stays inside until it ends: Close waits for that
		s.place.leave()
		return nil, &waitError{s.lk.name, ErrClosed, nil}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closes = context.AfterFunc(c.life, func() { s.end(nil) })
	if s.lk.opts.noRenewal {
		s.timer = time.AfterFunc(s.lk.opts.ttl, func() { s.open() })
	}
	return s.stand(parent), nil
}

func (s *substitute) stand(parent context.Context) *Lease {
	l := &Lease{footing: s, parent: parent}
	s.leases.add(l)
	return l
}

// end ends it once, for a reason if it is lost, and tells the leases.
func (s *substitute) end(why *LostError) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	leases := s.leases.takeAll()
	s.ended, s.why = true, why
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	defer s.lk.c.gate.leave()
	s.closes()
	for _, l := range leases {
		_ = l.finish(s.ending())
	}
	s.place.leave()
	if why != nil {
		for _, hook := range s.lk.c.hooks.lost {
			hook.Lost(why)
		}
	}
}

func (s *substitute) resource() string { return s.lk.name }

func (s *substitute) id() string { return s.holder }

func (s *substitute) tokens(*Lease) map[string]uint64 { return map[string]uint64{s.lk.name: 0} }

func (s *substitute) fallback() Fallback { return s.lk.opts.fallback }

// open implements footing. Only time can end what no store knows.
func (s *substitute) open() bool {
	if s.lk.opts.noRenewal && time.Since(s.since) >= s.lk.opts.ttl {
		s.end(&LostError{Resource: s.lk.name, Cause: LostExpired})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended
}

func (s *substitute) ending() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return s.why
	}
	return ErrReleased
}

// deadline is a TTL from now, as if it had just been renewed.
func (s *substitute) deadline() time.Time {
	if s.lk.opts.noRenewal {
		return s.since.Add(s.lk.opts.ttl)
	}
	return time.Now().Add(s.lk.opts.ttl)
}

func (s *substitute) covers(c *Client, res engine.Resource) bool {
	return s.lk.c == c && s.lk.resource() == res
}

func (s *substitute) reenter(own *Lease, parent context.Context, lk *locker, weight int) (*Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := reentry(s.lk, lk, s.weight, weight); err != nil {
		return nil, err
	}
	if !s.leases.has(own) {
		return nil, nil
	}
	return s.stand(parent), nil
}

func (s *substitute) leave(l *Lease) (last, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leases.remove(l) {
		return false, false
	}
	return s.leases.len() == 0, true
}

func (s *substitute) giveBack(_ context.Context, last *Lease) error {
	s.end(nil)
	for _, hook := range s.lk.c.hooks.release {
		hook.Release(Release{Resource: s.lk.name, Token: last.token, Held: time.Since(s.since)})
	}
	return nil
}

func (s *substitute) detach(context.Context, *Lease) (string, error) {
	return "", opError("detach", s.lk.name, fmt.Errorf("%w: a lease that the store does not know has no ticket", errors.ErrUnsupported))
}

// demote makes a writer's lease a reader's, and lets in the readers of this
// client that wait.
func (s *substitute) demote(l *Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lk.kind != engine.KindRW || s.weight < rwCapacity && !s.demoted:
		return fmt.Errorf("%w as the writer of an RWMutex", ErrNotHeld)
	case !s.leases.has(l):
		return fmt.Errorf("%w any more", ErrNotHeld)
	case s.leases.len() > 1:
		return fmt.Errorf("%w by this lease alone: release the re-entrant ones first", ErrNotHeld)
	}
	s.weight, s.demoted = 1, true
	s.place.lower(1)
	return nil
}
