package primitivetest

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// mutexProgram is a script of callers of one mutex.
type mutexProgram []step

func drawMutex(t *random.T, least int) Script {
	return mutexProgram(random.SliceOfN(random.Custom(drawStep), least, 40).Draw(t, "program"))
}

// exclusive checks a resource that one caller may hold at a time: at each grant no other
// trust window is open, and tokens increase.
type exclusive struct {
	simulation
	open []*holdfast.Lease // not released yet
	top  uint64            // highest token
}

func (s *Environment) options(st step) []holdfast.LockOption {
	opts := []holdfast.LockOption{s.ttl(st.ttl())}
	switch st.Opts {
	case "no tenure":
		opts = append(opts, holdfast.WithoutTenure())
	case "no renewal":
		opts = append(opts, holdfast.WithoutRenewal())
	}
	return opts
}

// ttl returns the TTL that Opts stands for.
func (st step) ttl() time.Duration {
	switch st.Opts {
	case "short":
		return 300 * time.Millisecond
	case "no renewal":
		return time.Second
	}
	return usualTTL
}

// usualTTL is the TTL without an option.
const usualTTL = 2 * time.Second

// granted checks that no other lease is valid now. It ignores leases that an operator broke:
// until the client receives the break, it may even hand them off, with tokens that a fence
// refuses. It also ignores a lease that has ended already, which a stall can cause in real
// time.
func (b *exclusive) granted(l *holdfast.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Token() == 0 {
		b.failing("granted without a token")
	}
	if b.isBroken(l) {
		return
	}
	for _, other := range b.open {
		if !b.isBroken(other) && other.Err() == nil && l.Err() == nil {
			b.failing("two open trust windows: %s (token %d) and %s (token %d)", other.HolderID(), other.Token(), l.HolderID(), l.Token())
		}
	}
	if l.Token() <= b.top && l.Err() == nil {
		b.failing("token %d after %d", l.Token(), b.top)
	}
	b.top = max(b.top, l.Token())
	b.open = append(b.open, l)
}

func (b *exclusive) released(l *holdfast.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(o *holdfast.Lease) bool { return o == l })
}

// hold checks a lease that was granted, and waits for d or until the lease is lost.
func (b *exclusive) hold(l *holdfast.Lease, d time.Duration) {
	b.granted(l)
	select {
	case <-time.After(b.span(d)):
	case <-l.Done():
	}
	b.released(l)
}

// act runs one caller: it acquires, holds and releases.
func (b *exclusive) act(s step) {
	m := b.clients[s.Client].Mutex("x", b.options(s)...)
	lock := m.Lock
	if s.Do == "try" {
		lock = m.TryLock
	}
	var l *holdfast.Lease
	err := b.bounded(s, func(ctx context.Context) (err error) {
		l, err = lock(ctx)
		return err
	})
	if err != nil {
		if !b.refused(err, s.Client, b.ttlOf(s.ttl())) {
			b.fail("%s: %v", s.Do, err)
		}
		return
	}
	b.hold(l, s.Hold)
	gone, cancel := context.WithCancel(context.Background())
	if s.Sleep == 0 {
		cancel()
	}
	defer cancel()
	_ = l.Release(gone) // the lease may be lost, or the store unreachable
}

func (b *exclusive) do(s step) {
	b.Idle()
	switch s.Do {
	case "lock", "try":
		b.actors.Go(func() { b.act(s) })
	case "break holder":
		b.breakLease("x", true)
	case "break waiter":
		b.breakLease("x", false)
	default:
		b.setNetwork(s)
	}
	b.elapse(s.Sleep)
}

// Play checks that no two callers hold the mutex at once, that tokens increase, that calls
// end with their ctx, and that at the end every client can acquire the mutex within 10 s.
func (p mutexProgram) Play(s *Environment) []string {
	b := &exclusive{}
	b.openClients(s, 3)
	for _, st := range p {
		b.do(st)
	}
	b.healAll()
	b.actors.Wait()
	for _, c := range b.clients {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if l, err := c.Mutex("x").Lock(ctx); err != nil {
			b.fail("at the end: %v", err)
		} else {
			b.granted(l)
			b.released(l)
			if err := l.Release(ctx); err != nil {
				b.fail("at the end: %v", err)
			}
		}
		cancel()
	}
	return b.close("x")
}
