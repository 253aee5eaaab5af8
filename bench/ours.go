package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// Variants of Holdfast.
const (
	lingering  = "holdfast, WithLinger"
	requestCtx = "holdfast, ctx that can end"
)

// Readers of an RWMutex, which share a lease, or each with one of its own.
const (
	reading      = "holdfast, RLock"
	readingAlone = "holdfast, RLock WithoutTenure"
)

// holdfastReaders is the readers of an RWMutex.
func holdfastReaders(name string, opts ...holdfast.LockOption) contender {
	c := holdfastContender(name, opts...)
	open := c.open
	c.open = func(s settings) (client, error) {
		p, err := open(s)
		if err != nil {
			return nil, err
		}
		return &readersClient{p.(*holdfastClient)}, nil
	}
	return c
}

type readersClient struct{ *holdfastClient }

func (p *readersClient) lock(resource string) lock {
	return &holdfastLock{acquire: p.c.RWMutex(resource, p.opts...).RLock}
}

// writer implements writing.
func (p *readersClient) writer(resource string) lock {
	return &holdfastLock{acquire: p.c.RWMutex(resource, p.opts...).Lock}
}

// holdfastContender is a mutex of Holdfast as shown in the README.
func holdfastContender(name string, opts ...holdfast.LockOption) contender {
	return contender{
		name: name, role: ours, background: true, leaseEnd: holdfastLeaseEnd,
		sends: []string{"evalsha", "eval", "subscribe", "ping"},
		open:  func(s settings) (client, error) { return openHoldfast(s, opts) },
	}
}

// openHoldfast opens a client of Holdfast, whose locks have some options.
func openHoldfast(s settings, locks []holdfast.LockOption, opts ...holdfast.Option) (client, error) {
	rdb := s.client()
	c, err := holdfast.New(goredis.New(rdb), opts...)
	if err != nil {
		return nil, err
	}
	return &holdfastClient{c, []io.Closer{rdb}, append(slices.Clone(locks), holdfast.WithTTL(s.ttl))}, nil
}

// onRequestContexts gives all calls of a contender a context that may end during the
// call, also calls that do not wait.
func onRequestContexts(c contender) contender {
	c.background = false
	return c
}

type holdfastClient struct {
	c    *holdfast.Client
	rdbs []io.Closer
	opts []holdfast.LockOption
}

func (p *holdfastClient) lock(resource string) lock {
	return &holdfastLock{acquire: p.c.Mutex(resource, p.opts...).Lock}
}

// keep returns the lease: a user keeps nothing else.
func (p *holdfastClient) keep(ctx context.Context, resource string) (any, error) {
	return p.c.Mutex(resource, p.opts...).Lock(ctx)
}

func (p *holdfastClient) close() {
	_ = p.c.Close() // remaining leases expire by their TTL
	for _, rdb := range p.rdbs {
		_ = rdb.Close()
	}
}

type holdfastLock struct {
	acquire func(ctx context.Context) (*holdfast.Lease, error)
	l       *holdfast.Lease
}

func (h *holdfastLock) Lock(ctx context.Context) (err error) {
	h.l, err = h.acquire(ctx)
	return err
}

func (h *holdfastLock) Unlock(ctx context.Context) error { return h.l.Release(ctx) }

// holdfastLeaseEnd reads the deadline of a lease; see docs/PROTOCOL.md.
func holdfastLeaseEnd(ctx context.Context, rdb *redis.Client, resource string) (time.Time, error) {
	us, err := rdb.HGet(ctx, "holdfast:{"+resource+"}", "deadline").Int64()
	return time.UnixMicro(us), err
}
