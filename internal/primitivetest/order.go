package primitivetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// sharedLock acquires leases of any weight on one resource.
type sharedLock interface {
	lock(ctx context.Context, weight int) (*holdfast.Lease, error)
	try(ctx context.Context, weight int) (*holdfast.Lease, error)
}

// writerWeight is the weight of a writer.
const writerWeight = 1 << 20

type readWriter struct{ *holdfast.RWMutex }

func (rw readWriter) lock(ctx context.Context, weight int) (*holdfast.Lease, error) {
	if weight == writerWeight {
		return rw.Lock(ctx)
	}
	return rw.RLock(ctx)
}

func (rw readWriter) try(ctx context.Context, weight int) (*holdfast.Lease, error) {
	if weight == writerWeight {
		return rw.TryLock(ctx)
	}
	return rw.TryRLock(ctx)
}

type weighted struct{ *holdfast.Semaphore }

func (s weighted) lock(ctx context.Context, weight int) (*holdfast.Lease, error) {
	return s.Acquire(ctx, weight)
}

func (s weighted) try(ctx context.Context, weight int) (*holdfast.Lease, error) {
	return s.TryAcquire(ctx, weight)
}

// sharedKind is a kind of shared resource that programs run on.
type sharedKind struct {
	capacity int
	weights  []int
	open     func(c *holdfast.Client, opts ...holdfast.LockOption) sharedLock
}

func readWriters() sharedKind {
	return sharedKind{writerWeight, []int{1, 1, 1, writerWeight}, func(c *holdfast.Client, opts ...holdfast.LockOption) sharedLock {
		return readWriter{c.RWMutex("x", opts...)}
	}}
}

func semaphores() sharedKind {
	return sharedKind{5, []int{1, 2, 3, 4, 5}, func(c *holdfast.Client, opts ...holdfast.LockOption) sharedLock {
		return weighted{c.Semaphore("x", 5, opts...)}
	}}
}

// move is one step of an orderProgram.
type move struct {
	Do     string
	Client int
	Weight int
	Which  int // of the holders or waiters, modulo their number
}

// orderProgram is a script without faults on a shared resource.
type orderProgram struct {
	sharedKind
	Moves []move
}

func drawOrder(kind sharedKind) drawer {
	return func(t *random.T, least int) Script {
		return orderProgram{kind, random.SliceOfN(random.Custom(func(t *random.T) move {
			return move{
				Do:     random.SampledFrom([]string{"lock", "lock", "lock", "try", "release", "release", "withdraw", "demote", "demote", "wait"}).Draw(t, "do"),
				Client: random.IntRange(0, 2).Draw(t, "client"),
				Weight: random.SampledFrom(kind.weights).Draw(t, "weight"),
				Which:  random.IntRange(0, 5).Draw(t, "which"),
			}
		}), least, 40).Draw(t, "program")}
	}
}

// lockResult is the result of a call in the background.
type lockResult struct {
	lease *holdfast.Lease
	err   error
}

// caller is a call that waits for a lease or has acquired it.
type caller struct {
	number int
	weight int
	got    chan lockResult
	cancel context.CancelFunc
	lease  *holdfast.Lease
}

// orderRun runs an orderProgram and its model: the holders, and the waiters in order. After
// every move the model determines exactly which callers have a lease.
type orderRun struct {
	simulation
	sharedKind
	locks   []sharedLock
	holders []*caller
	waiting []*caller
	callers int
	top     uint64
}

func (s *orderRun) used() (used int) {
	for _, c := range s.holders {
		used += c.weight
	}
	return used
}

// grantFront grants in the model: to the first waiter, as long as its weight fits.
func (s *orderRun) grantFront() (served []*caller) {
	for len(s.waiting) > 0 && s.used()+s.waiting[0].weight <= s.capacity {
		served = append(served, s.waiting[0])
		s.holders, s.waiting = append(s.holders, s.waiting[0]), s.waiting[1:]
	}
	return served
}

func (s *orderRun) do(m move) error {
	a := s.locks[m.Client]
	switch m.Do {
	case "lock":
		ctx, cancel := context.WithCancel(context.Background())
		c := &caller{number: s.callers, weight: m.Weight, got: make(chan lockResult, 1), cancel: cancel}
		s.callers++
		go func() {
			l, err := a.lock(ctx, m.Weight)
			c.got <- lockResult{l, err}
		}()
		s.waiting = append(s.waiting, c)
	case "try":
		l, err := a.try(context.Background(), m.Weight)
		if fits := len(s.waiting) == 0 && s.used()+m.Weight <= s.capacity; fits != (err == nil) {
			return fmt.Errorf("try: %v, but fits is %v", err, fits)
		}
		if err == nil {
			c := &caller{number: s.callers, weight: m.Weight, lease: l, cancel: func() {}}
			s.callers++
			s.holders = append(s.holders, c)
			return s.checkToken(l)
		}
	case "release":
		if len(s.holders) > 0 {
			i := m.Which % len(s.holders)
			c := s.holders[i]
			s.holders = slices.Delete(s.holders, i, i+1)
			defer c.cancel()
			return c.lease.Release(context.Background())
		}
	case "withdraw":
		if len(s.waiting) > 0 {
			i := m.Which % len(s.waiting)
			c := s.waiting[i]
			s.waiting = slices.Delete(s.waiting, i, i+1)
			c.cancel()
			if r := <-c.got; r.err == nil {
				return fmt.Errorf("caller %d withdrew and was granted", c.number)
			}
		}
	case "demote":
		if len(s.holders) > 0 {
			c := s.holders[m.Which%len(s.holders)]
			err := c.lease.Demote(context.Background())
			if writer := c.weight == writerWeight && s.capacity == writerWeight; writer {
				c.weight = 1
				return err
			}
		}
	case "wait":
		s.Idle()
		<-time.After(orderTTL * 3 / 2)
	}
	return nil
}

// orderTTL is the same in every environment, since these leases must not expire.
const orderTTL = 2 * time.Second

func (s *orderRun) checkToken(l *holdfast.Lease) error {
	if l.Token() <= s.top {
		return fmt.Errorf("token %d after %d", l.Token(), s.top)
	}
	s.top = l.Token()
	return nil
}

// check compares the grants with the model, in order.
func (s *orderRun) check() error {
	served := s.grantFront()
	came := s.Eventually(func() bool {
		st := s.snapshot("x")
		return len(st.Holders) == len(s.holders) && len(st.Waiters) == len(s.waiting) &&
			!slices.ContainsFunc(served, func(c *caller) bool { return len(c.got) == 0 })
	})
	for _, c := range served {
		if len(c.got) == 0 {
			return fmt.Errorf("caller %d of weight %d is not granted", c.number, c.weight)
		}
		r := <-c.got
		if r.err != nil {
			return fmt.Errorf("caller %d: %w", c.number, r.err)
		}
		c.lease = r.lease
		if err := s.checkToken(r.lease); err != nil {
			return err
		}
	}
	if !came {
		return fmt.Errorf("the store has %+v, the model %d holders and %d waiters", s.snapshot("x"), len(s.holders), len(s.waiting))
	}
	for _, c := range s.waiting {
		if len(c.got) > 0 {
			return fmt.Errorf("caller %d of weight %d is done, out of turn: %v", c.number, c.weight, (<-c.got).err)
		}
	}
	for _, c := range s.holders {
		if err := c.lease.Err(); err != nil {
			return fmt.Errorf("caller %d: %w", c.number, err)
		}
	}
	return nil
}

// Play checks after every move that readers and writers, or units of a semaphore,
// are granted exactly as by a plain first-come-first-served queue. Readers share no lease.
func (o orderProgram) Play(st *Environment) []string {
	s := &orderRun{sharedKind: o.sharedKind}
	s.openClients(st, 3)
	for _, c := range s.clients {
		s.locks = append(s.locks, s.open(c, holdfast.WithTTL(orderTTL), holdfast.WithoutTenure()))
	}
	for i, m := range o.Moves {
		err := s.do(m)
		if err == nil {
			err = s.check()
		}
		if err != nil {
			s.failCalm("move %d %+v: %v", i, m, err)
			break
		}
	}
	for _, c := range slices.Concat(s.waiting, s.holders) {
		c.cancel()
	}
	return s.close("x")
}
