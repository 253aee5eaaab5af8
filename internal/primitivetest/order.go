package primitivetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
)

// asker gets leases of a weight on one resource, which has a kind.
type asker interface {
	lock(ctx context.Context, weight int) (*holdfast.Lease, error)
	try(ctx context.Context, weight int) (*holdfast.Lease, error)
}

// everything is the weight of a writer.
const everything = 1 << 20

type readWriter struct{ *holdfast.RWMutex }

func (rw readWriter) lock(ctx context.Context, weight int) (*holdfast.Lease, error) {
	if weight == everything {
		return rw.Lock(ctx)
	}
	return rw.RLock(ctx)
}

func (rw readWriter) try(ctx context.Context, weight int) (*holdfast.Lease, error) {
	if weight == everything {
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

// sharing is a sort of shared resource that programs run on.
type sharing struct {
	capacity int
	weights  []int
	open     func(c *holdfast.Client, ttl holdfast.LockOption) asker
}

func readWriters() sharing {
	return sharing{everything, []int{1, 1, 1, everything}, func(c *holdfast.Client, ttl holdfast.LockOption) asker {
		return readWriter{c.RWMutex("x", ttl)}
	}}
}

func semaphores() sharing {
	return sharing{5, []int{1, 2, 3, 4, 5}, func(c *holdfast.Client, ttl holdfast.LockOption) asker {
		return weighted{c.Semaphore("x", 5, ttl)}
	}}
}

// move is one line of a program on a shared resource.
type move struct {
	Do     string
	Client int
	Weight int
	Which  int // of those that hold or wait, modulo their number
}

// order is a program without faults on a shared resource.
type order struct {
	sharing
	Moves []move
}

func drawOrder(sort sharing) drawer {
	return func(t *rapid.T, least int) Script {
		return order{sort, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
			return move{
				Do:     rapid.SampledFrom([]string{"lock", "lock", "lock", "try", "release", "release", "give up", "demote", "demote", "wait"}).Draw(t, "do"),
				Client: rapid.IntRange(0, 2).Draw(t, "client"),
				Weight: rapid.SampledFrom(sort.weights).Draw(t, "weight"),
				Which:  rapid.IntRange(0, 5).Draw(t, "which"),
			}
		}), least, 40).Draw(t, "program")}
	}
}

// answer is what a call in the background returned.
type answer struct {
	lease *holdfast.Lease
	err   error
}

// caller is one who wants a lease, or has it.
type caller struct {
	number int
	weight int
	got    chan answer
	give   context.CancelFunc
	lease  *holdfast.Lease
}

// shop is a program on a shared resource beside its model: who holds what, and
// who waits, in order. The model knows exactly who has a lease after every move.
type shop struct {
	world
	sharing
	askers  []asker
	holding []*caller
	line    []*caller
	callers int
	top     uint64
}

func (s *shop) used() (used int) {
	for _, c := range s.holding {
		used += c.weight
	}
	return used
}

// serve grants from the front as long as the front fits.
func (s *shop) serve() (served []*caller) {
	for len(s.line) > 0 && s.used()+s.line[0].weight <= s.capacity {
		served = append(served, s.line[0])
		s.holding, s.line = append(s.holding, s.line[0]), s.line[1:]
	}
	return served
}

func (s *shop) do(m move) error {
	a := s.askers[m.Client]
	switch m.Do {
	case "lock":
		ctx, cancel := context.WithCancel(context.Background())
		c := &caller{number: s.callers, weight: m.Weight, got: make(chan answer, 1), give: cancel}
		s.callers++
		go func() {
			l, err := a.lock(ctx, m.Weight)
			c.got <- answer{l, err}
		}()
		s.line = append(s.line, c)
	case "try":
		l, err := a.try(context.Background(), m.Weight)
		if fits := len(s.line) == 0 && s.used()+m.Weight <= s.capacity; fits != (err == nil) {
			return fmt.Errorf("try: %v, but fits is %v", err, fits)
		}
		if err == nil {
			c := &caller{number: s.callers, weight: m.Weight, lease: l, give: func() {}}
			s.callers++
			s.holding = append(s.holding, c)
			return s.token(l)
		}
	case "release":
		if len(s.holding) > 0 {
			i := m.Which % len(s.holding)
			c := s.holding[i]
			s.holding = slices.Delete(s.holding, i, i+1)
			defer c.give()
			return c.lease.Release(context.Background())
		}
	case "give up":
		if len(s.line) > 0 {
			i := m.Which % len(s.line)
			c := s.line[i]
			s.line = slices.Delete(s.line, i, i+1)
			c.give()
			if r := <-c.got; r.err == nil {
				return fmt.Errorf("caller %d gave up and was granted", c.number)
			}
		}
	case "demote":
		if len(s.holding) > 0 {
			c := s.holding[m.Which%len(s.holding)]
			err := c.lease.Demote(context.Background())
			if writer := c.weight == everything && s.capacity == everything; writer {
				c.weight = 1
				return err
			}
		}
	case "wait":
		s.Rest()
		<-time.After(orderTTL * 3 / 2)
	}
	return nil
}

// orderTTL must not run out without a fault, so it is the same on every stage.
const orderTTL = 2 * time.Second

func (s *shop) token(l *holdfast.Lease) error {
	if l.Token() <= s.top {
		return fmt.Errorf("token %d after %d", l.Token(), s.top)
	}
	s.top = l.Token()
	return nil
}

// check compares who has been granted with the model, in order.
func (s *shop) check() error {
	served := s.serve()
	came := s.Settle(func() bool {
		st := s.snapshot("x")
		return len(st.Holders) == len(s.holding) && len(st.Waiters) == len(s.line) &&
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
		if err := s.token(r.lease); err != nil {
			return err
		}
	}
	if !came {
		return fmt.Errorf("the store has %+v, the model %d holders and %d waiters", s.snapshot("x"), len(s.holding), len(s.line))
	}
	for _, c := range s.line {
		if len(c.got) > 0 {
			return fmt.Errorf("caller %d of weight %d is done, out of turn: %v", c.number, c.weight, (<-c.got).err)
		}
	}
	for _, c := range s.holding {
		if err := c.lease.Err(); err != nil {
			return fmt.Errorf("caller %d: %w", c.number, err)
		}
	}
	return nil
}

// Play checks after every move that readers and writers, or parts of a semaphore,
// are granted exactly as a plain first-come-first-served queue says.
func (o order) Play(st *Stage) []string {
	s := &shop{sharing: o.sharing}
	s.enter(st, 3)
	for _, c := range s.clients {
		s.askers = append(s.askers, s.open(c, holdfast.WithTTL(orderTTL)))
	}
	for i, m := range o.Moves {
		err := s.do(m)
		if err == nil {
			err = s.check()
		}
		if err != nil && !s.disturbed() {
			s.fail("move %d %+v: %v", i, m, err)
		}
		if err != nil {
			break
		}
	}
	for _, c := range slices.Concat(s.line, s.holding) {
		c.give()
	}
	return s.close("x")
}
