package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
	"github.com/holdfast-go/holdfast/lab/stores"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// lockClient is a worker's client of the lock.
type lockClient interface {
	// take acquires as a round says.
	take(ctx context.Context, r round) (workload.Hold, error)
	// expected reports whether an error needs no fault: the lock was held by another.
	expected(err error) bool
	// passing reports whether an error is one that faults may cause.
	passing(err error) bool
	// pools are the connection pools that it was made with.
	pools() []stores.Pool
	close() error
}

// openClient opens the client of a lock of the catalog. Renewed is called for each renewal by the
// resource, if the lock reports them, reached at each point of the client, if the build has points, and watch
// for each connection of Holdfast, as of stores.Open.
func openClient(o opening, catalog subject.Catalog, renewed, reached func(string), watch stores.Watch) (lockClient, error) {
	if o.Program.holdfast() { // it has to be right with the defaults of the drivers
		return openHoldfast(o, renewed, reached, watch)
	}
	var conns []*redis.Client
	for _, url := range o.Nodes {
		opts, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		c := subject.Connect(opts.Addr)
		opts.MaxRetries, opts.ContextTimeoutEnabled, opts.ReadTimeout = c.MaxRetries, c.ContextTimeoutEnabled, c.ReadTimeout
		conns = append(conns, redis.NewClient(opts))
	}
	kind, err := catalog.Find(o.Program.Subject)
	if err != nil {
		return nil, err
	}
	c, err := kind.Open(subject.Setup{Client: o.Name, Nodes: conns, TTL: o.Program.TTL,
		Renewed: func(r subject.Renewal) { renewed(strings.TrimPrefix(r.Resource, o.Prefix+":")) }})
	return &catalogClient{c, o.Prefix, conns}, err
}

// catalogClient is a lock of the catalog that is used as a mutex.
type catalogClient struct {
	c      subject.Client
	prefix string
	conns  []*redis.Client
}

func (p *catalogClient) take(ctx context.Context, r round) (workload.Hold, error) {
	if r.way == Try {
		return p.c.Try(ctx, p.prefix+":"+r.Name)
	}
	return p.c.Acquire(ctx, p.prefix+":"+r.Name)
}

// expected and passing report true for every error: what to do with errors of the network is left to
// the caller by these locks.
func (p *catalogClient) expected(error) bool { return true }
func (p *catalogClient) passing(error) bool  { return true }

func (p *catalogClient) pools() (all []stores.Pool) {
	for _, c := range p.conns {
		all = append(all, stores.RedisPool(c))
	}
	return all
}

func (p *catalogClient) close() error {
	err := p.c.Close()
	for _, c := range p.conns {
		_ = c.Close() // nothing is under way
	}
	return err
}

// holdfastClient is a client of Holdfast.
type holdfastClient struct {
	c       *holdfast.Client
	adopter *holdfast.Client // on the same engine; nil: no lease is moved
	name    string
	ttl     time.Duration
	pooled  []stores.Pool
	end     func()
}

// renewals is a hook that passes on renewals that worked.
type renewals struct{ renewed func(resource string) }

// Renew implements holdfast.RenewHook.
func (r renewals) Renew(e holdfast.RenewEvent) {
	if e.Err == nil {
		r.renewed(e.Resource)
	}
}

func openHoldfast(o opening, renewed, reached func(string), watch stores.Watch) (*holdfastClient, error) {
	e, pools, end, err := openEngine(o.Nodes, watch)
	if err != nil {
		return nil, err
	}
	pausepoint.Watch(e, reached)
	opts := []holdfast.Option{holdfast.WithPrefix(o.Prefix), holdfast.WithName(o.Name), holdfast.WithHooks(renewals{renewed})}
	if o.Program.History {
		opts = append(opts, holdfast.WithHistory(0))
	}
	c, err := holdfast.New(e, opts...)
	if err != nil {
		end()
		return nil, err
	}
	m := &holdfastClient{c: c, name: o.Name, ttl: o.Program.TTL, pooled: pools, end: end}
	if slices.ContainsFunc(o.Program.Resources, func(r Resource) bool { return r.Kind == Moved }) {
		m.adopter, err = holdfast.New(e, opts...)
	}
	if err != nil {
		_ = m.close() // nothing is held
		return nil, err
	}
	return m, nil
}

// openObserver opens a client that reads what the workers have stored.
func openObserver(urls []string, prefix string) (c *holdfast.Client, end func(), err error) {
	e, _, closeEngine, err := openEngine(urls, nil)
	if err != nil {
		return nil, nil, err
	}
	if c, err = holdfast.New(e, holdfast.WithPrefix(prefix)); err != nil {
		closeEngine()
		return nil, nil, err
	}
	return c, func() { _ = c.Close(); closeEngine() }, nil // nothing is held
}

// openEngine opens an engine on a store, or on several as a quorum.
func openEngine(urls []string, watch stores.Watch) (e engine.Engine, pools []stores.Pool, end func(), err error) {
	var nodes []engine.Engine
	var clients []*stores.Client
	end = func() {
		for _, c := range clients {
			c.Close()
		}
	}
	for _, url := range urls {
		c, err := stores.Open(url, watch)
		if err != nil {
			end()
			return nil, nil, nil, err
		}
		clients, nodes, pools = append(clients, c), append(nodes, c.Engine), append(pools, c.Pools...)
	}
	if len(nodes) == 1 {
		return nodes[0], pools, end, nil
	}
	return quorum.New(nodes...), pools, end, nil
}

func (m *holdfastClient) expected(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) && !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, holdfast.ErrInvalid)
}

// passing reports whether the store was unavailable, the lease lost, or the store too slow for the TTL.
func (m *holdfastClient) passing(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost)
}

func (m *holdfastClient) pools() []stores.Pool { return m.pooled }

func (m *holdfastClient) close() error {
	err := m.c.Close()
	if m.adopter != nil {
		err = errors.Join(err, m.adopter.Close())
	}
	m.end()
	return err
}

// lease is a workload.Hold of Holdfast.
type lease struct{ *holdfast.Lease }

// Until implements workload.Hold.
func (l lease) Until() time.Time { return l.Deadline() }

// Lost implements workload.Hold.
func (l lease) Lost() <-chan struct{} { return l.Done() }

// StoreID implements workload.Stored.
func (l lease) StoreID() string { return l.HolderID() }

// reader is a lease that readers of a process may share.
type reader struct{ lease }

// SharedID implements workload.Sharer.
func (l reader) SharedID() string { return l.HolderID() }

// read returns what makes a hold of a reader's lease.
func (m *holdfastClient) read(r round) func(*holdfast.Lease, error) (workload.Hold, error) {
	if r.way == NoTenure || r.way == NoRenewal {
		return leased
	}
	return func(l *holdfast.Lease, err error) (workload.Hold, error) {
		if err != nil {
			return nil, err
		}
		return reader{lease{l}}, nil
	}
}

func leased(l *holdfast.Lease, err error) (workload.Hold, error) {
	if err != nil {
		return nil, err
	}
	return lease{l}, nil
}

func (m *holdfastClient) options(r round) []holdfast.LockOption {
	opts := []holdfast.LockOption{holdfast.WithTTL(m.ttl)}
	switch r.way {
	case NoTenure:
		opts = append(opts, holdfast.WithoutTenure())
	case Linger:
		opts = append(opts, holdfast.WithLinger(m.ttl/3))
	case NoRenewal:
		opts = append(opts, holdfast.WithoutRenewal())
	}
	return opts
}

func (m *holdfastClient) take(ctx context.Context, r round) (workload.Hold, error) {
	opts, try := m.options(r), r.way == Try
	switch r.Kind {
	case Pair:
		rw := m.c.RWMutex(r.Name, opts...)
		switch {
		case r.weight == 1 && try:
			return m.read(r)(rw.TryRLock(ctx))
		case r.weight == 1:
			return m.read(r)(rw.RLock(ctx))
		case try:
			return leased(rw.TryLock(ctx))
		}
		return leased(rw.Lock(ctx))
	case Semaphore:
		s := m.c.Semaphore(r.Name, capacity, opts...)
		if try {
			return leased(s.TryAcquire(ctx, r.weight))
		}
		return leased(s.Acquire(ctx, r.weight))
	}
	if r.Kind == Election { // it has no try
		return leased(m.c.Election(r.Name, opts...).Campaign(ctx, m.name))
	}
	mutex := m.c.Mutex(r.Name, opts...)
	lock := mutex.Lock
	if try {
		lock = mutex.TryLock
	}
	if r.Kind == Moved {
		return leased(m.move(ctx, lock))
	}
	return leased(lock(ctx))
}

// move acquires a lease that the other client adopts. The end of the wait does not leave it between the two.
func (m *holdfastClient) move(ctx context.Context, lock func(context.Context) (*holdfast.Lease, error)) (*holdfast.Lease, error) {
	l, err := lock(ctx)
	if err != nil {
		return nil, err
	}
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.ttl)
	defer cancel()
	ticket, err := l.Detach(kept)
	if err != nil {
		_ = l.Release(kept) // unless it is lost
		return nil, err
	}
	return m.adopter.Adopt(kept, ticket)
}

// several acquires a Multi. The hold of a part is the lease of all, with the token of the part.
func (m *holdfastClient) several(ctx context.Context, r round) (parts []workload.Hold, err error) {
	multi := m.c.Multi(r.parts, m.options(r)...)
	acquire := multi.Lock
	if r.way == Try {
		acquire = multi.TryLock
	}
	l, err := acquire(ctx)
	if err != nil {
		return nil, err
	}
	for i, name := range r.parts {
		if p := (part{lease{l}, l.Tokens()[name]}); i > 0 {
			parts = append(parts, p)
		} else {
			parts = append(parts, firstPart{p})
		}
	}
	return parts, nil
}

// part is a resource of a Multi.
type part struct {
	lease lease
	token uint64
}

// Token implements workload.Hold.
func (p part) Token() uint64 { return p.token }

// Until implements workload.Hold.
func (p part) Until() time.Time { return p.lease.Until() }

// Lost implements workload.Hold.
func (p part) Lost() <-chan struct{} { return p.lease.Lost() }

// Err implements workload.Hold.
func (p part) Err() error { return p.lease.Err() }

// Release implements workload.Hold.
func (p part) Release(ctx context.Context) error { return p.lease.Release(ctx) }

// firstPart is the part of which a Multi has the ID.
type firstPart struct{ part }

// StoreID implements workload.Stored.
func (p firstPart) StoreID() string { return p.lease.HolderID() }

// slot runs work once a slot: of a job if job is set, else of an ID.
func (m *holdfastClient) slot(ctx context.Context, id string, opts []holdfast.JobOption, fn func(context.Context) error) (bool, error) {
	if opts == nil {
		return m.c.Once(ctx, id, time.Hour, fn)
	}
	return m.c.Job(id, append(opts, holdfast.Every(slotLength), holdfast.WithTTL(m.ttl))...).Run(ctx, fn)
}

// errOnPurpose is what work returns that is meant to fail.
var errOnPurpose = errors.New("the work failed")

// running returns the resource of a run, and its token: 0 if it has none, or two.
func running(ctx context.Context) (name string, token uint64) {
	l := holdfast.LeaseFromContext(ctx)
	for name, token := range l.Tokens() {
		if token != l.Token() {
			return name, 0
		}
		return name, token
	}
	return "", 0
}
