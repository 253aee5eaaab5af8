package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxMulti is how many different names a Multi may have.
const MaxMulti = 64

// Multi is several mutexes that are held together: all or nothing. Its lease is
// one lease: it is lost as a whole when one of the resources is lost, and the
// LostError names that one; the others are given back then, or, if an operator broke
// that one, with the Release of the lease, at the latest at the deadline of the broken
// one. Token is that of the first name as given, Tokens has all.
//
// The resources are those of Client.Mutex, and on a cluster they may live on
// different nodes. Whatever the order of the names, Multis do not deadlock: each
// takes its resources one after the other in the order of their names, and waits
// for the next while it holds those before. So a Multi that waits may keep others
// out of resources that it cannot use yet; name few, and hold them briefly.
type Multi struct {
	c     *Client
	first string
	parts []*acquirer // by name
	opts  lockOptions
}

// Multi returns a handle on 1 to MaxMulti resources. It costs nothing until it
// is used. A name given twice counts once.
func (c *Client) Multi(names []string, opts ...LockOption) *Multi {
	m := &Multi{c: c, opts: lockOptionsFrom(opts)}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	switch {
	case len(sorted) == 0:
		m.opts.fail(optionError("a Multi of no names: name 1 to %d resources", MaxMulti))
		return m
	case len(sorted) > MaxMulti:
		m.opts.fail(optionError("a Multi of %d names: use at most %d, or one resource that stands for all", len(sorted), MaxMulti))
	}
	m.first = names[0]
	part := m.opts
	part.noRenewal = false // the whole ends at its TTL; its parts live until then
	each := lockSpec{kind: engine.KindMutex, capacity: 1, opts: part}
	for _, name := range sorted {
		if err := checkName(name); err != nil {
			m.opts.fail(err)
		}
		lk := each.on(c, name)
		m.parts = append(m.parts, &lk)
	}
	return m
}

// Lock waits until all resources are held or ctx ends; then, and after any other
// error, none is. If one that is held already gets lost while the wait for
// another goes on, all are given back and Lock starts again. WithoutRenewal
// counts the TTL from the moment when the last one is granted.
//
// Under a context that carries the caller's lease of one of the resources it is
// ErrDeadlock at once; WithReentrancy enters that one again and takes the others
// anew. A Multi that waits for others while its caller holds leases already, also
// under another name, is as free to deadlock as any nested lock. Other errors as
// for Mutex.Lock.
func (m *Multi) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, true)
}

// TryLock asks for each once, never queues, and gives up with the first that is
// held. Errors as for Mutex.TryLock; the HeldError names the resource.
func (m *Multi) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, false)
}

// Do runs fn under the lease; see Mutex.Do.
func (m *Multi) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return l.do(ctx, fn)
}

// acquire gathers all parts, again if one was lost on the way.
func (m *Multi) acquire(ctx context.Context, queue bool) (*Lease, error) {
	if m.opts.err != nil {
		return nil, m.opts.err
	}
	needContext(ctx)
	for _, lk := range m.parts {
		if !m.opts.reentrant && leaseIn(ctx, m.c, lk.resource()) != nil {
			return nil, &waitError{lk.name, ErrDeadlock, nil}
		}
	}
	for {
		l, err := m.gather(ctx, queue)
		if l != nil || err != nil {
			return l, err
		}
	}
}

// gather takes one part after the other. The order is the same for all Multis:
// who waits for a resource holds only resources before it, so that whoever holds
// the last one that is wanted never waits, and there is no circle. It returns nil
// if a part was lost on the way.
func (m *Multi) gather(ctx context.Context, queue bool) (*Lease, error) {
	wait, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	b := &multiGrant{c: m.c, title: m.title(), first: m.first, ttl: m.opts.ttl, interrupt: interrupt}
	returns := false
	defer func() {
		if !returns { // a hook panics
			m.c.releaseLeases(m.title(), b.parts...)
		}
	}()
	l, err := m.each(ctx, wait, b, queue)
	returns = true
	return l, err
}

// each takes the parts for gather.
func (m *Multi) each(ctx, wait context.Context, b *multiGrant, queue bool) (*Lease, error) {
	var failed error
	for i := 0; i < len(m.parts) && failed == nil; i++ {
		var part *Lease
		switch {
		case !queue:
			part, failed = m.parts[i].try(ctx, 1)
		case i == 0: // nothing to lose yet; and a ctx that never ends costs less
			part, failed = m.parts[i].lock(ctx, 1)
		default:
			part, failed = m.parts[i].lock(wait, 1)
		}
		if failed == nil {
			b.add(part)
		}
	}
	if failed == nil {
		if l := b.complete(ctx, !m.opts.noRenewal); l != nil {
			return l, nil
		}
	}
	await(m.c.releaseLeases(m.title(), b.parts...), callGrace) // the rest in the background
	switch {
	case failed != nil && !errors.Is(failed, ErrLost): // so no part's loss interrupted it
		return nil, failed
	case ctx.Err() != nil:
		return nil, &waitError{m.title(), context.Cause(ctx), nil}
	case m.c.life.Err() != nil:
		return nil, &waitError{m.title(), ErrClosed, nil}
	}
	return nil, nil
}

// title names the resources in errors.
func (m *Multi) title() string {
	if len(m.parts) == 1 {
		return m.first
	}
	return fmt.Sprintf("%s and %d more", m.first, len(m.parts)-1)
}
