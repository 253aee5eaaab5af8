package live

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// party is a worker's client of the lock.
type party interface {
	// take asks as a round says.
	take(ctx context.Context, r round) (workload.Hold, error)
	// passing tells whether an error is one that faults may cause.
	passing(err error) bool
	// pools are what it was made with.
	pools() []*redis.Client
	close() error
}

// join makes the client of a lock of the catalog. Renewed hears of renewals by resource, where the lock
// tells of them.
func join(o opening, catalog subject.Catalog, renewed func(resource string)) (party, error) {
	var conns []*redis.Client
	for _, url := range o.Nodes {
		opts, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		if !o.Program.holdfast() { // Holdfast has to be right with go-redis's defaults
			c := subject.Connect(opts.Addr)
			opts.MaxRetries, opts.ContextTimeoutEnabled, opts.ReadTimeout = c.MaxRetries, c.ContextTimeoutEnabled, c.ReadTimeout
		}
		conns = append(conns, redis.NewClient(opts))
	}
	if o.Program.holdfast() {
		return joinHoldfast(o, conns, renewed)
	}
	kind, err := catalog.Find(o.Program.Subject)
	if err != nil {
		return nil, err
	}
	c, err := kind.Open(subject.Setup{Client: o.Name, Nodes: conns, TTL: o.Program.TTL,
		Renewed: func(r subject.Renewal) { renewed(strings.TrimPrefix(r.Resource, o.Prefix+":")) }})
	return &other{c, o.Prefix, conns}, err
}

// other is a lock that is played as a mutex.
type other struct {
	c      subject.Client
	prefix string
	conns  []*redis.Client
}

func (p *other) take(ctx context.Context, r round) (workload.Hold, error) {
	if r.way == Try {
		return p.c.Try(ctx, p.prefix+":"+r.Name)
	}
	return p.c.Acquire(ctx, p.prefix+":"+r.Name)
}

// passing lets everything pass: what to do with errors of the network is left to
// the caller by these locks.
func (p *other) passing(error) bool { return true }

func (p *other) pools() []*redis.Client { return p.conns }

func (p *other) close() error {
	err := p.c.Close()
	for _, c := range p.conns {
		_ = c.Close() // nothing is under way
	}
	return err
}

// member is a client of Holdfast.
type member struct {
	c     *holdfast.Client
	ttl   time.Duration
	conns []*redis.Client
}

// renewals is a hook that passes on renewals that worked.
type renewals struct{ tell func(resource string) }

// Renew implements holdfast.RenewHook.
func (r renewals) Renew(e holdfast.RenewEvent) {
	if e.Err == nil {
		r.tell(e.Resource)
	}
}

func joinHoldfast(o opening, conns []*redis.Client, renewed func(resource string)) (*member, error) {
	c, err := holdfast.New(engineOf(conns), holdfast.WithPrefix(o.Prefix), holdfast.WithName(o.Name), holdfast.WithHooks(renewals{renewed}))
	return &member{c, o.Program.TTL, conns}, err
}

func engineOf(conns []*redis.Client) engine.Engine {
	if len(conns) == 1 {
		return goredis.New(conns[0])
	}
	var nodes []engine.Engine
	for _, c := range conns {
		nodes = append(nodes, goredis.New(c))
	}
	return quorum.New(nodes...)
}

func (m *member) passing(err error) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost)
}

func (m *member) pools() []*redis.Client { return m.conns }

func (m *member) close() error {
	err := m.c.Close()
	for _, c := range m.conns {
		_ = c.Close() // the engine is done with it
	}
	return err
}

// lease is a workload.Hold of Holdfast.
type lease struct{ *holdfast.Lease }

// Until implements workload.Hold.
func (l lease) Until() time.Time { return l.Deadline() }

// Lost implements workload.Hold.
func (l lease) Lost() <-chan struct{} { return l.Done() }

func leased(l *holdfast.Lease, err error) (workload.Hold, error) {
	if err != nil {
		return nil, err
	}
	return lease{l}, nil
}

func (m *member) options(r round) []holdfast.LockOption {
	opts := []holdfast.LockOption{holdfast.WithTTL(m.ttl)}
	switch r.way {
	case NoTenure:
		opts = append(opts, holdfast.WithoutTenure())
	case NoRenewal:
		opts = append(opts, holdfast.WithoutRenewal())
	}
	return opts
}

func (m *member) take(ctx context.Context, r round) (workload.Hold, error) {
	opts, try := m.options(r), r.way == Try
	switch r.Kind {
	case Pair:
		rw := m.c.RWMutex(r.Name, opts...)
		switch {
		case r.weight == 1 && try:
			return leased(rw.TryRLock(ctx))
		case r.weight == 1:
			return leased(rw.RLock(ctx))
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
	mutex := m.c.Mutex(r.Name, opts...)
	if try {
		return leased(mutex.TryLock(ctx))
	}
	return leased(mutex.Lock(ctx))
}

// slot runs work once a slot: of a job if job is set, else of an ID.
func (m *member) slot(ctx context.Context, id string, opts []holdfast.JobOption, fn func(context.Context) error) (bool, error) {
	if opts == nil {
		return m.c.Once(ctx, id, time.Hour, fn)
	}
	return m.c.Job(id, append(opts, holdfast.Every(slotLength), holdfast.WithTTL(m.ttl))...).Run(ctx, fn)
}

// errOnPurpose is what work returns that is meant to fail.
var errOnPurpose = errors.New("the work failed")

// named is the resource under which a run stands.
func named(ctx context.Context) string {
	for name := range holdfast.LeaseFromContext(ctx).Tokens() {
		return name
	}
	return ""
}
