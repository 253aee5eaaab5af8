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

// multiGrant backs one lease by several, each of a different resource. It ends when one of
// them does. One goroutine acquires the parts; after that it may be lost at any moment.
type multiGrant struct {
	c         *Client
	title     string // for errors
	first     string // name of the part whose token and holder ID the lease has
	ttl       time.Duration
	interrupt context.CancelCauseFunc

	mu    sync.Mutex
	state multiState
	why   error
	parts []*Lease // fixed once it is held
	lease *Lease   // nil while acquiring
	term  *term    // of a lease that is not renewed, although its parts are; of a broken one until it must be released
}

// multiState only moves forward.
type multiState uint8

const (
	multiAcquiring multiState = iota
	multiHeld
	multiBroken // an operator broke one part; the lease has ended, the parts are not released yet
	multiEnded
)

var _ grant = (*multiGrant)(nil)

// add adds a part. From now on the end of the part ends the whole.
func (b *multiGrant) add(part *Lease) {
	b.mu.Lock()
	b.parts = append(b.parts, part)
	b.mu.Unlock()
	part.notify(b.end)
}

// complete returns the lease of all parts, or nil if one was lost meanwhile.
func (b *multiGrant) complete(parent context.Context, renewed bool) *Lease {
	if !b.open() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != multiAcquiring {
		return nil
	}
	b.state = multiHeld
	b.lease = &Lease{grant: b, token: b.firstPart().token, parent: parent}
	if !renewed {
		b.term = b.c.newTerm(b.ttl, func() { b.open() })
	}
	return b.lease
}

// firstPart returns the part of the first name as given.
func (b *multiGrant) firstPart() *Lease { return b.part(b.first) }

func (b *multiGrant) part(name string) *Lease {
	i := slices.IndexFunc(b.parts, func(p *Lease) bool { return p.grant.resource() == name })
	return b.parts[i]
}

func (b *multiGrant) resource() string { return b.first }

func (b *multiGrant) id() string { return b.firstPart().grant.id() }

func (b *multiGrant) tokens(*Lease) map[string]uint64 {
	all := make(map[string]uint64, len(b.parts))
	for _, p := range b.parts {
		all[p.grant.resource()] = p.token
	}
	return all
}

// open implements grant: it is open as long as every part is.
func (b *multiGrant) open() bool {
	for _, p := range b.parts {
		if why := p.Err(); why != nil {
			b.end(why)
			return false
		}
	}
	b.mu.Lock()
	expired := b.term.passed()
	b.mu.Unlock()
	if expired {
		b.end(&LostError{Resource: b.first, Token: b.firstPart().token, Cause: LostExpired})
	}
	return !expired
}

// end ends the whole with the error of one part, and releases the others: if that part
// was broken, with the Release of the whole, at the latest at the deadline of the part.
func (b *multiGrant) end(why error) {
	b.mu.Lock()
	was := b.state
	if was >= multiBroken {
		b.mu.Unlock()
		return
	}
	b.state, b.why = multiEnded, why
	b.term.stop()
	lost, ok := errors.AsType[*LostError](why)
	if was == multiHeld && ok && lost.Cause == LostBroken {
		b.state = multiBroken
		b.term = b.c.newTerm(time.Until(b.part(lost.Resource).Deadline()), b.expire)
	}
	broken := b.state == multiBroken
	b.mu.Unlock()
	closing := errors.Is(why, ErrReleased) // Close releases all parts, and ends waits
	switch {
	case was == multiHeld:
		_ = b.lease.end(why)
		if !closing && !broken {
			b.c.releaseLeases(b.title, b.parts...)
		}
	case !closing:
		b.interrupt(why) // the goroutine that acquires the parts releases them
	}
}

// expire releases the parts of a broken whole that was never released.
func (b *multiGrant) expire() {
	b.mu.Lock()
	late := b.state == multiBroken
	b.state = multiEnded
	b.mu.Unlock()
	if late {
		b.c.releaseLeases(b.title, b.parts...)
	}
}

// releaseLeases releases leases in the background. The channel is closed when that is
// done.
func (c *Client) releaseLeases(title string, leases ...*Lease) <-chan struct{} {
	return c.background(releaseGrace, func(ctx context.Context) {
		errs := slices.DeleteFunc(releaseEach(ctx, leases), func(err error) bool { return errors.Is(err, ErrLost) })
		if err := errors.Join(errs...); err != nil {
			c.log.Warn("holdfast: a lease was not released in time; retrying in the background",
				"resource", title, "err", err)
		}
	})
}

// releaseEach releases all concurrently, so that with a store that hangs it takes no longer
// than one release. It returns the error of each, or nil.
func releaseEach(ctx context.Context, leases []*Lease) []error {
	errs := make([]error, len(leases))
	inParallel(len(leases), func(i int) {
		if errs[i] = leases[i].Release(ctx); errors.Is(errs[i], ErrReleased) {
			errs[i] = nil // Close has released it
		}
	})
	return errs
}

// inParallel calls f with 0 to n−1 concurrently and returns when all calls have ended. If
// a call panics or ends its goroutine, as a hook may, the caller then does the same.
func inParallel(n int, f func(i int)) {
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

// fallback implements grant: one part that the store did not grant is enough.
func (b *multiGrant) fallback() Fallback {
	for _, p := range b.parts {
		if f := p.Fallback(); f != FailClosed {
			return f
		}
	}
	return FailClosed
}

func (b *multiGrant) endError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why != nil {
		return b.why
	}
	return ErrReleased
}

// deadline returns the earliest deadline of all parts.
func (b *multiGrant) deadline() time.Time {
	end := b.firstPart().Deadline()
	for _, p := range b.parts {
		if d := p.Deadline(); d.Before(end) {
			end = d
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term != nil {
		if d := b.term.deadline(); d.Before(end) {
			end = d
		}
	}
	return end
}

func (b *multiGrant) covers(c *Client, res engine.Resource) bool {
	return slices.ContainsFunc(b.parts, func(p *Lease) bool { return p.grant.covers(c, res) })
}

// reenter implements grant: a Lock of one of the resources re-enters that part.
func (b *multiGrant) reenter(_ *Lease, parent context.Context, lk *acquirer, weight int) (*Lease, error) {
	part := b.part(lk.name)
	return part.grant.reenter(part, parent, lk, weight)
}

func (b *multiGrant) release(ctx context.Context, l *Lease, _ time.Duration) error {
	b.mu.Lock()
	held := b.state == multiHeld || b.state == multiBroken
	if b.state == multiHeld {
		b.why = ErrReleased
	}
	if held {
		b.state = multiEnded
		b.term.stop()
	}
	b.mu.Unlock()
	broken := l.endReleased(held)
	if !held {
		return broken
	}
	err := errors.Join(releaseEach(ctx, b.parts)...)
	if broken != nil {
		return broken
	}
	return err
}

func (b *multiGrant) demote(context.Context, *Lease) error { return errNotWriter }

func (b *multiGrant) detach(context.Context, *Lease) (string, error) {
	return "", opError("detach", b.title, fmt.Errorf("%w: a lease of several resources has no ticket: use one lease for each", errors.ErrUnsupported))
}
