package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxMulti is the maximum number of different names of a Multi.
const MaxMulti = 64

// A Multi is several mutexes that are held together: all or none. Token returns
// the token of the first name as given, and Tokens all of them.
//
// Its lease is lost as a whole when one of the resources is lost; the LostError
// names that resource. The others are then released at once. If an operator broke
// the lease of that resource, they are released with the Multi's lease, at the
// latest at the deadline of the broken lease.
//
// The resources are those of Client.Mutex, and in a cluster they may be on
// different nodes. Multis do not deadlock, whatever the order of the names:
// each acquires its resources one by one in the order of their names, and waits
// for the next one while it holds the earlier ones. A waiting Multi may
// therefore hold resources that it cannot use yet: name few, and hold them
// briefly.
type Multi struct {
	c     *Client
	first string
	parts []*acquirer // by name
	opts  lockOptions
}

// Multi returns a handle for 1 to MaxMulti resources. It makes no call to the
// store. A name that is given twice counts once.
func (c *Client) Multi(names []string, opts ...LockOption) *Multi {
	m := &Multi{c: c, opts: lockOptionsFrom(opts)}
	if m.opts.linger > 0 {
		m.opts.fail(optionError("a Multi with WithLinger: it is for a Mutex"))
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	switch {
	case len(sorted) == 0:
		m.opts.fail(optionError("a Multi without names: use 1 to %d", MaxMulti))
		return m
	case len(sorted) > MaxMulti:
		m.opts.fail(optionError("a Multi of %d names: use at most %d, or one resource that stands for all", len(sorted), MaxMulti))
	}
	m.first = names[0]
	part := m.opts
	part.noRenewal = false // the Multi ends at its TTL; its parts are renewed until then
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

// Lock waits until all resources are held or ctx ends. If it returns an error,
// none is held. If one of them is lost while Lock waits for another, Lock
// releases all and starts again. With WithoutRenewal the TTL counts from the
// grant of the last one.
//
// If ctx carries the caller's lease of one of the resources, Lock returns
// ErrDeadlock at once; with WithReentrancy it re-enters that one and acquires
// the others. A nested Multi can deadlock like any nested lock: it waits while
// its caller holds other leases. Other errors are those of [Mutex.Lock].
func (m *Multi) Lock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, true)
}

// TryLock makes one attempt for each resource, never queues, and stops at the
// first that is held. Errors are those of [Mutex.TryLock]; the HeldError names
// the resource.
func (m *Multi) TryLock(ctx context.Context) (*Lease, error) {
	return m.acquire(ctx, false)
}

// Do calls fn under the lease; see [Mutex.Do].
func (m *Multi) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	return do(ctx, m.Lock, fn)
}

// acquire acquires all parts, and starts again if one was lost meanwhile.
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
		l, err := m.acquireAll(ctx, queue)
		if l != nil || err != nil {
			return l, err
		}
	}
}

// acquireAll acquires the parts one by one. The order is the same for all Multis,
// so a Multi that waits for a resource holds only resources before it; the
// holder of the last one wanted never waits, and there is no cycle. acquireAll
// returns nil if a part was lost meanwhile.
func (m *Multi) acquireAll(ctx context.Context, queue bool) (*Lease, error) {
	wait, interrupt := context.WithCancelCause(ctx)
	defer interrupt(nil)
	b := &multiGrant{c: m.c, title: m.title(), first: m.first, ttl: m.opts.ttl, interrupt: interrupt}
	returns := false
	defer func() {
		if !returns { // a hook panics
			m.c.releaseLeases(m.title(), b.parts...)
		}
	}()
	l, err := m.acquireEach(ctx, wait, b, queue)
	returns = true
	return l, err
}

// acquireEach acquires the parts for acquireAll.
func (m *Multi) acquireEach(ctx, wait context.Context, b *multiGrant, queue bool) (*Lease, error) {
	var failed error
	for i := 0; i < len(m.parts) && failed == nil; i++ {
		var part *Lease
		switch {
		case !queue:
			part, failed = m.parts[i].acquire(ctx, 1, noWait)
		case i == 0: // no part to lose yet, and a ctx that never ends costs less
			part, failed = m.parts[i].acquire(ctx, 1, andWait)
		default:
			part, failed = m.parts[i].acquire(wait, 1, andWait)
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
	if failed != nil && !errors.Is(failed, ErrLost) {
		return nil, failed // no part's loss interrupted it
	}
	return nil, m.c.waitOver(ctx, m.title(), nil)
}

// title names the resources in errors.
func (m *Multi) title() string {
	if len(m.parts) == 1 {
		return m.first
	}
	return fmt.Sprintf("%s and %d more", m.first, len(m.parts)-1)
}
