package workload_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// lease is a Hold of Holdfast.
type lease struct{ *holdfast.Lease }

func (l lease) Until() time.Time      { return l.Deadline() }
func (l lease) Lost() <-chan struct{} { return l.Done() }

// open is a lock that lets everybody in.
type open struct{ done chan struct{} }

func (open) Token() uint64                   { return 0 }
func (open) Until() time.Time                { return time.Time{} }
func (o open) Lost() <-chan struct{}         { return o.done }
func (open) Err() error                      { return nil }
func (o open) Release(context.Context) error { close(o.done); return nil }

func letIn(context.Context) (workload.Hold, error) { return open{make(chan struct{})}, nil }

func all() []check.Check {
	return []check.Check{check.Overlap(), check.Inside(), check.Tokens(), check.Stale(), check.Notified(0), check.Updates(), check.Sold(),
		check.Whole(), check.Deadlock(time.Second)}
}

// play runs works with several workers, each so many rounds, and judges.
func play(t *testing.T, takeOf func(i int) workload.Take, at workload.Place, works ...workload.Work) []check.Violation {
	t.Helper()
	var found []check.Violation
	synctest.Test(t, func(t *testing.T) {
		rec := history.NewRecorder()
		vault := workload.NewVault(rec, map[string]int64{check.Stock: 7})
		var wg sync.WaitGroup
		for i := range 3 {
			w := &workload.Worker{Name: string(rune('a' + i)), Rec: rec, Vault: vault}
			wg.Go(func() {
				for n := range 4 {
					_ = w.Round(t.Context(), at, takeOf(i), works[(i+n)%len(works)])
				}
			})
		}
		wg.Wait()
		found = check.Run(rec.Ops(), all()...)
	})
	return found
}

func TestHoldfastIsUnbroken(t *testing.T) {
	for name, work := range map[string]workload.Work{
		"counter": workload.Counter(time.Second), "stock": workload.Sell(time.Second), "log": workload.Append(time.Second), "stand": workload.Stand(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			e := memory.New()
			take := func(int) workload.Take {
				return func(ctx context.Context) (workload.Hold, error) {
					c, err := holdfast.New(e)
					if err != nil {
						return nil, err
					}
					context.AfterFunc(ctx, func() { _ = c.Close() })
					l, err := c.Mutex("r").Lock(ctx)
					return lease{l}, err
				}
			}
			if found := play(t, take, workload.Place{Resource: "r"}, work); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

func TestNoLockIsSeen(t *testing.T) {
	for name, p := range map[string]struct {
		check string
		at    workload.Place
		works []workload.Work
	}{
		"counter": {"updates", workload.Place{Resource: "r"}, []workload.Work{workload.Counter(time.Second)}},
		"stock":   {"sold", workload.Place{Resource: "r"}, []workload.Work{workload.Sell(time.Second)}},
		"log":     {"updates", workload.Place{Resource: "r"}, []workload.Work{workload.Append(time.Second)}},
		"pair":    {"whole", workload.Place{Resource: "r", Weight: 1, Capacity: 9}, []workload.Work{workload.ReadPair(time.Second), workload.WritePair(time.Second / 3)}},
		"stand":   {"inside", workload.Place{Resource: "r"}, []workload.Work{workload.Stand(time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			found := play(t, func(int) workload.Take { return letIn }, p.at, p.works...)
			for _, v := range found {
				if v.Check == p.check {
					return
				}
			}
			t.Errorf("%s saw nothing: %v", p.check, found)
		})
	}
}

// A vault with a fence refuses what comes after a newer token, reads included.
func TestVaultFences(t *testing.T) {
	rec := history.NewRecorder()
	v := workload.NewVault(rec, nil)
	access := func(kind history.Kind, note string, token uint64, weight int) history.Outcome {
		op, err := v.Access(t.Context(), history.Op{Kind: kind, Resource: "r", Note: note, Token: token, Weight: weight, Capacity: 9})
		if err != nil {
			t.Fatal(err)
		}
		return op.Outcome
	}
	for i, p := range []struct {
		kind   history.Kind
		note   string
		token  uint64
		weight int
		want   history.Outcome
	}{
		{history.Read, check.Counter, 5, 9, history.OK},
		{history.Write, check.Counter, 4, 9, history.Failed},
		{history.Write, check.Log, 4, 9, history.OK},
		{history.Read, workload.Half, 7, 1, history.OK},
		{history.Read, workload.Half, 6, 1, history.OK},
		{history.Write, check.Pair, 6, 9, history.Failed},
		{history.Write, check.Pair, 8, 9, history.OK},
		{history.Read, check.Pair, 7, 1, history.Failed},
	} {
		if got := access(p.kind, p.note, p.token, p.weight); got != p.want {
			t.Errorf("access %d: %s, want %s", i, got, p.want)
		}
	}
	if n := len(rec.Ops()); n != 8 {
		t.Errorf("%d accesses recorded", n)
	}
}

// A client that is killed between its steps leaves at that moment and releases
// nothing; one that is killed before it knows of its grant has never entered.
func TestDeath(t *testing.T) {
	for _, step := range []string{"acquired", "working"} {
		rec := history.NewRecorder()
		w := &workload.Worker{Name: "a", Rec: rec, Vault: workload.NewVault(rec, nil), Step: func(_ context.Context, at string) error {
			if at == step {
				return workload.ErrDead
			}
			return nil
		}}
		err := w.Round(t.Context(), workload.Place{Resource: "r"}, letIn, workload.Counter(0))
		if !errors.Is(err, workload.ErrDead) {
			t.Errorf("%s: %v", step, err)
		}
		left := false
		for _, op := range rec.Ops() {
			left = left || op.Kind == history.Leave
			if op.Kind == history.Release {
				t.Errorf("%s: the dead released: %+v", step, op)
			}
		}
		if left != (step == "working") {
			t.Errorf("%s: left is %v", step, left)
		}
	}
}

func TestOnce(t *testing.T) {
	rec := history.NewRecorder()
	w := &workload.Worker{Name: "a", Rec: rec}
	slot := workload.Slot{Resource: "report", Number: 3}
	always := func(ctx context.Context, fn func(context.Context) error) (bool, error) { return true, fn(ctx) }
	never := func(context.Context, func(context.Context) error) (bool, error) { return false, nil }
	for range 2 {
		if err := w.Once(t.Context(), slot, 0, nil, always); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Once(t.Context(), slot, 0, nil, never); err != nil {
		t.Fatal(err)
	}
	if err := w.Once(t.Context(), slot, 0, workload.ErrLost, always); !errors.Is(err, workload.ErrLost) {
		t.Fatal(err)
	}
	found := check.Run(rec.Ops(), check.Slots())
	if len(found) != 1 || len(rec.Ops()) != 3 {
		t.Errorf("%v in %v", found, rec.Ops())
	}
}

// A loss is recorded also if the work ends at the same moment.
func TestLossAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := history.NewRecorder()
		w := &workload.Worker{Name: "a", Rec: rec}
		const rounds = 50
		for range rounds {
			lost := make(chan struct{})
			take := func(context.Context) (workload.Hold, error) { return broken{open{lost}}, nil }
			_ = w.Round(t.Context(), workload.Place{Resource: "r"}, take, func(context.Context, *workload.Lease) error {
				close(lost)
				return nil
			})
		}
		n := 0
		for _, op := range rec.Ops() {
			if op.Kind == history.Lost {
				n++
			}
		}
		if n != rounds {
			t.Errorf("%d losses are recorded, want %d", n, rounds)
		}
	})
}

// broken is an open lock whose release changes nothing.
type broken struct{ open }

func (broken) Release(context.Context) error { return workload.ErrLost }
