package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// recorder is a hook with every method.
type recorder struct {
	mu       sync.Mutex
	started  []holdfast.AcquireStartEvent
	ended    []holdfast.AcquireEndEvent
	renewed  []holdfast.RenewEvent
	lost     []*holdfast.LostError
	released []holdfast.ReleaseEvent
}

func (r *recorder) AcquireStart(_ context.Context, e holdfast.AcquireStartEvent) {
	r.note(func() { r.started = append(r.started, e) })
}

func (r *recorder) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	r.note(func() { r.ended = append(r.ended, e) })
}

func (r *recorder) Renew(e holdfast.RenewEvent) { r.note(func() { r.renewed = append(r.renewed, e) }) }

func (r *recorder) Lost(e *holdfast.LostError) { r.note(func() { r.lost = append(r.lost, e) }) }

func (r *recorder) Release(e holdfast.ReleaseEvent) {
	r.note(func() { r.released = append(r.released, e) })
}

func (r *recorder) note(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
}

func (r *recorder) renews() []holdfast.RenewEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.renewed)
}

func (r *recorder) losses() []*holdfast.LostError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lost)
}

func (r *recorder) ends() []holdfast.AcquireEndEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

func TestHooksGetEveryEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &recorder{}
		e := memory.New()
		c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e)
		m := c.Mutex("x", holdfast.WithReentrancy())
		l := mustLock(t, m.Lock, context.Background())
		_, busy := m.TryLock(context.Background())
		inner := mustLock(t, m.Lock, l.Context())
		mustRelease(t, inner)
		local := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		mustRelease(t, l)
		second := (<-local).lease
		time.Sleep(time.Second) // longer than a slice
		pushed := lockSoon(context.Background(), m.Lock)
		foreign := lockSoon(context.Background(), other.Mutex("x").Lock)
		synctest.Wait()
		mustRelease(t, second)
		fl := (<-foreign).lease
		time.Sleep(10 * time.Millisecond)
		mustRelease(t, fl)
		third := (<-pushed).lease
		mustRelease(t, third)

		want := []holdfast.AcquireEndEvent{
			{Token: l.Token(), Source: holdfast.SourceStore},
			{Err: busy},
			{Token: l.Token(), Source: holdfast.SourceContext},
			{Token: l.Token() + 1, Source: holdfast.SourceProcess},
			{Token: third.Token(), Source: holdfast.SourcePush},
		}
		ends := h.ends()
		if len(ends) != len(want) || len(h.started) != len(want) {
			t.Fatalf("%d starts, ends %+v", len(h.started), ends)
		}
		for i, w := range want {
			got := ends[i]
			if got.Resource != "x" || got.Kind != "mutex" || got.Weight != 1 || got.Token != w.Token || got.Source != w.Source ||
				(got.Err == nil) != (w.Err == nil) || w.Err != nil && !errors.Is(got.Err, holdfast.ErrNotAcquired) {
				t.Errorf("end %d: %+v; want %+v", i, got, w)
			}
			if waited := got.Waited; waited != 0 && (i != 4 || waited != 10*time.Millisecond) {
				t.Errorf("end %d: waited %v", i, waited)
			}
		}
		if len(h.released) != 3 || h.released[1].Held != time.Second || h.released[0].Err != nil {
			t.Errorf("releases %+v", h.released)
		}
		if len(h.losses()) != 0 {
			t.Errorf("losses %v", h.losses())
		}
	})
}

func TestLostHookRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &recorder{}
		e := newFaulty()
		m := newClient(t, e, holdfast.WithHooks(h)).Mutex("x", holdfast.WithTTL(time.Second))
		l := mustLock(t, m.Lock, context.Background())
		e.All(down)
		<-l.Done()
		_ = l.Err()
		_ = l.Release(context.Background())
		e.All(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		losses := h.losses()
		if len(losses) != 1 || losses[0].Cause != holdfast.LostUnreachable || losses[0].Token != l.Token() || losses[0].Resource != "x" {
			t.Errorf("losses %v", losses)
		}
	})
}

type onlyLost struct{ lost chan *holdfast.LostError }

func (o onlyLost) Lost(e *holdfast.LostError) { o.lost <- e }

func TestHookWithOneMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := onlyLost{make(chan *holdfast.LostError, 1)}
		m := newClient(t, memory.New(), holdfast.WithHooks(h)).Mutex("x", holdfast.WithoutRenewal(), holdfast.WithTTL(time.Second))
		l := mustLock(t, m.Lock, context.Background())
		if got := <-h.lost; got.Cause != holdfast.LostExpired || got.Token != l.Token() {
			t.Errorf("lost: %v", got)
		}
	})
}

// renewsOddly has one method with the right signature and one with a wrong one.
type renewsOddly struct{}

func (renewsOddly) Lost(*holdfast.LostError) {}

func (renewsOddly) Renew(string) {}

// losesByPointer has one method on the value and one on the pointer.
type losesByPointer struct{}

func (losesByPointer) Renew(holdfast.RenewEvent) {}

func (*losesByPointer) Lost(*holdfast.LostError) {}

func TestHookThatWouldNotBeCalled(t *testing.T) {
	for _, k := range []struct {
		hook holdfast.Hook
		want string
	}{
		{nil, "none of the hook methods"},
		{struct{}{}, "none of the hook methods"},
		{renewsOddly{}, "the method Renew is a func(string), want a func(holdfast.RenewEvent)"},
		{losesByPointer{}, "the method Lost has a pointer receiver"},
	} {
		_, err := holdfast.New(memory.New(), holdfast.WithHooks(k.hook))
		if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), k.want) {
			t.Errorf("%T: got %v, want %q", k.hook, err, k.want)
		}
	}
	c, err := holdfast.New(memory.New(), holdfast.WithHooks(&losesByPointer{}, &recorder{}))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// A renewal reports how long the call to the store took, also one that failed.
func TestRenewalsReportTheirDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := &recorder{}, newFaulty()
		c := newClient(t, e, holdfast.WithHooks(h))
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		e.Slow(100*time.Millisecond, 50*time.Millisecond)
		time.Sleep(6 * time.Second)
		e.All(hang) // the answer is awaited for two seconds
		time.Sleep(7 * time.Second)
		e.All(nil)
		got := h.renews()
		if len(got) < 2 || got[0].Took != 150*time.Millisecond || got[0].Err != nil || got[1].Took != 2*time.Second || !errors.Is(got[1].Err, holdfast.ErrUnavailable) {
			t.Errorf("renewals %+v", got)
		}
		mustRelease(t, l)
	})
}
