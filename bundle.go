package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// bundle is several leases as one, each of a resource of its own. It ends when
// one of them does. One goroutine gathers it; after that it may be lost at any
// moment.
type bundle struct {
	c         *Client
	title     string // for errors
	first     string // the name whose token and holder ID are the lease's
	ttl       time.Duration
	term      time.Time // when it ends although its parts are renewed; zero: never
	interrupt context.CancelCauseFunc

	mu    sync.Mutex
	state bundleState
	why   error
	parts []*Lease // fixed once it is held
	whole *Lease   // nil while gathering
	timer *time.Timer
}

// bundleState only moves forward.
type bundleState uint8

const (
	bundleGathering bundleState = iota
	bundleHeld
	bundleBroken // one part was broken, and the holder is told
	bundleEnded
)

var _ footing = (*bundle)(nil)

// add takes a part in and hears of its end from now on.
func (b *bundle) add(part *Lease) {
	b.mu.Lock()
	b.parts = append(b.parts, part)
	b.mu.Unlock()
	part.watch(b.end)
}

// complete makes the lease of all parts, or nil if one was lost meanwhile.
func (b *bundle) complete(parent context.Context, renewed bool) *Lease {
	if !b.open() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != bundleGathering {
		return nil
	}
	b.state = bundleHeld
	b.whole = &Lease{footing: b, token: b.leading().token, parent: parent}
	if !renewed {
		b.term = time.Now().Add(b.ttl)
		b.timer = time.AfterFunc(b.ttl, func() { b.open() })
	}
	return b.whole
}

// leading is the part of the first name as given.
func (b *bundle) leading() *Lease { return b.part(b.first) }

func (b *bundle) part(name string) *Lease {
	i := slices.IndexFunc(b.parts, func(p *Lease) bool { return p.footing.resource() == name })
	return b.parts[i]
}

func (b *bundle) resource() string { return b.title }

func (b *bundle) id() string { return b.leading().footing.id() }

func (b *bundle) tokens(*Lease) map[string]uint64 {
	all := make(map[string]uint64, len(b.parts))
	for _, p := range b.parts {
		all[p.footing.resource()] = p.token
	}
	return all
}

// open implements footing: it is open as long as every part is.
func (b *bundle) open() bool {
	for _, p := range b.parts {
		if why := p.Err(); why != nil {
			b.end(why)
			return false
		}
	}
	b.mu.Lock()
	expired := !b.term.IsZero() && !time.Now().Before(b.term)
	b.mu.Unlock()
	if expired {
		b.end(&LostError{Resource: b.first, Token: b.leading().token, Cause: LostExpired})
	}
	return !expired
}

// end ends the whole with what ended one part, and gives the others back: if that
// one was broken, with the Release of the whole, at the latest when the broken one
// is over.
func (b *bundle) end(why error) {
	b.mu.Lock()
	was := b.state
	if was >= bundleBroken {
		b.mu.Unlock()
		return
	}
	b.state, b.why = bundleEnded, why
	if b.timer != nil {
		b.timer.Stop()
	}
	var lost *LostError
	if was == bundleHeld && errors.As(why, &lost) && lost.Cause == LostBroken {
		b.state = bundleBroken
		b.timer = time.AfterFunc(time.Until(b.part(lost.Resource).Deadline()), b.expire)
	}
	broken := b.state == bundleBroken
	b.mu.Unlock()
	closing := errors.Is(why, ErrReleased) // Close gives all back, and ends who waits
	switch {
	case was == bundleHeld:
		_ = b.whole.finish(why)
		if !closing && !broken {
			b.c.drop(b.title, b.parts...)
		}
	case !closing:
		b.interrupt(why) // who gathers gives back what there is
	}
}

// expire gives the parts back of a broken whole that was never released.
func (b *bundle) expire() {
	b.mu.Lock()
	late := b.state == bundleBroken
	b.state = bundleEnded
	b.mu.Unlock()
	if late {
		b.c.drop(b.title, b.parts...)
	}
}

// drop gives leases back in the background. The channel is closed when that is
// done.
func (c *Client) drop(title string, leases ...*Lease) <-chan struct{} {
	done := make(chan struct{})
	if !c.gate.join() {
		close(done)
		return done
	}
	go func() {
		defer c.gate.leave()
		defer close(done)
		ctx, cancel := context.WithTimeout(c.tasks, releaseGrace)
		defer cancel()
		if err := releaseEach(ctx, leases); err != nil && !errors.Is(err, ErrLost) {
			c.log.Warn("holdfast: a lease was not given back in time; the background goes on",
				"resource", title, "error", err)
		}
	}()
	return done
}

// releaseEach gives all back at once, so that a store that hangs costs the time
// of one.
func releaseEach(ctx context.Context, leases []*Lease) error {
	errs := make([]error, len(leases))
	together(len(leases), func(i int) {
		if errs[i] = leases[i].Release(ctx); errors.Is(errs[i], ErrReleased) {
			errs[i] = nil // Close was quicker
		}
	})
	return errors.Join(errs...)
}

// together calls f with 0 to n−1 at once and returns when all calls have ended. A
// call that panics or ends its goroutine, as a hook may, makes the caller do the
// same in the end.
func together(n int, f func(i int)) {
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		panicked []any
		exited   bool
	)
	for i := range n {
		wg.Go(func() {
			returned := false
			defer func() {
				r := recover()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r != nil:
					panicked = append(panicked, r)
				case !returned:
					exited = true
				}
			}()
			f(i)
			returned = true
		})
	}
	wg.Wait()
	switch {
	case len(panicked) > 0:
		panic(panicked[0])
	case exited:
		runtime.Goexit()
	}
}

// fallback implements footing: one part that the store did not grant is enough.
func (b *bundle) fallback() Fallback {
	for _, p := range b.parts {
		if f := p.Fallback(); f != FailClosed {
			return f
		}
	}
	return FailClosed
}

func (b *bundle) ending() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why != nil {
		return b.why
	}
	return ErrReleased
}

// deadline is the earliest of all parts'.
func (b *bundle) deadline() time.Time {
	end := b.term
	for _, p := range b.parts {
		if d := p.Deadline(); end.IsZero() || d.Before(end) {
			end = d
		}
	}
	return end
}

func (b *bundle) covers(c *Client, res engine.Resource) bool {
	return slices.ContainsFunc(b.parts, func(p *Lease) bool { return p.footing.covers(c, res) })
}

// reenter implements footing: who locks one resource again enters that part.
func (b *bundle) reenter(_ *Lease, parent context.Context, lk *locker, weight int) (*Lease, error) {
	part := b.part(lk.name)
	return part.footing.reenter(part, parent, lk, weight)
}

func (b *bundle) leave(*Lease) (last, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case bundleHeld:
		b.why = ErrReleased
	case bundleBroken:
	default:
		return false, false
	}
	b.state = bundleEnded
	if b.timer != nil {
		b.timer.Stop()
	}
	return true, true
}

func (b *bundle) giveBack(ctx context.Context, _ *Lease) error { return releaseEach(ctx, b.parts) }

func (b *bundle) detach(context.Context, *Lease) (string, error) {
	return "", opError("detach", b.title, fmt.Errorf("%w: a lease of several resources has no ticket; detach leases of one each", errors.ErrUnsupported))
}
