package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
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
	open     func(c *holdfast.Client) asker
}

var sharings = map[string]sharing{
	"rwmutex": {everything, []int{1, 1, 1, everything}, func(c *holdfast.Client) asker {
		return readWriter{c.RWMutex("x", holdfast.WithTTL(2*time.Second))}
	}},
	"semaphore": {5, []int{1, 1, 2, 3, 5}, func(c *holdfast.Client) asker {
		return weighted{c.Semaphore("x", 5, holdfast.WithTTL(2*time.Second))}
	}},
}

// move is one line of a program on a shared resource.
type move struct {
	Do     string
	Client int
	Weight int
	Which  int // of those that hold or wait, modulo their number
}

func drawMove(weights []int) *rapid.Generator[move] {
	return rapid.Custom(func(t *rapid.T) move {
		return move{
			Do:     rapid.SampledFrom([]string{"lock", "lock", "lock", "try", "release", "release", "give up", "demote", "wait"}).Draw(t, "do"),
			Client: rapid.IntRange(0, 2).Draw(t, "client"),
			Weight: rapid.SampledFrom(weights).Draw(t, "weight"),
			Which:  rapid.IntRange(0, 5).Draw(t, "which"),
		}
	})
}

// caller is one who wants a lease, or has it.
type caller struct {
	number int
	weight int
	got    chan result
	give   context.CancelFunc
	lease  *holdfast.Lease
}

// shop is a program on a shared resource beside its model: who holds what, and
// who waits, in order. Nothing takes time, so the model knows exactly who has a
// lease after every move.
type shop struct {
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
	var a asker = s.askers[m.Client]
	switch m.Do {
	case "lock":
		ctx, cancel := context.WithCancel(context.Background())
		c := &caller{number: s.callers, weight: m.Weight, got: make(chan result, 1), give: cancel}
		s.callers++
		go func() {
			l, err := a.lock(ctx, m.Weight)
			c.got <- result{lease: l, err: err}
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
			if err := c.lease.Release(context.Background()); err != nil {
				return err
			}
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
		synctest.Wait()
		time.Sleep(3 * time.Second) // virtual; longer than the TTL
	}
	return nil
}

func (s *shop) token(l *holdfast.Lease) error {
	if l.Token() <= s.top {
		return fmt.Errorf("token %d after %d", l.Token(), s.top)
	}
	s.top = l.Token()
	return nil
}

// check compares who has been granted with the model, in order.
func (s *shop) check() error {
	synctest.Wait()
	for _, c := range s.serve() {
		select {
		case r := <-c.got:
			if r.err != nil {
				return fmt.Errorf("caller %d: %w", c.number, r.err)
			}
			c.lease = r.lease
			if err := s.token(r.lease); err != nil {
				return err
			}
		default:
			return fmt.Errorf("caller %d of weight %d is not granted", c.number, c.weight)
		}
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

// play returns what went wrong. It is called in a bubble.
func (s *shop) play(program []move) (err error) {
	store := memory.New()
	for range 3 {
		c, err := holdfast.New(store)
		if err != nil {
			return err
		}
		defer c.Close()
		s.askers = append(s.askers, s.open(c))
	}
	for i, m := range program {
		if err = s.do(m); err == nil {
			err = s.check()
		}
		if err != nil {
			err = fmt.Errorf("move %d %+v: %w", i, m, err)
			break
		}
	}
	for _, c := range slices.Concat(s.line, s.holding) {
		c.give()
	}
	return err
}

// Readers and writers, and parts of a semaphore, are granted exactly as a plain
// first-come-first-served queue says.
func TestSharedFollowsItsModel(t *testing.T) {
	for name, sort := range sharings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				program := rapid.SliceOfN(drawMove(sort.weights), 1, 40).Draw(rt, "program")
				var err error
				synctest.Test(t, func(*testing.T) { err = (&shop{sharing: sort}).play(program) })
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}
