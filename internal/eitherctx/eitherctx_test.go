package eitherctx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/eitherctx"
)

type key struct{}

// asPackageContext is what Context stands for.
func asPackageContext(first, second context.Context) (context.Context, func()) {
	both, cancel := context.WithCancel(first)
	stop := context.AfterFunc(second, cancel)
	return both, func() { stop(); cancel() }
}

func either(first, second context.Context) (context.Context, func()) {
	c := eitherctx.New(first, second)
	return c, c.Stop
}

// Whatever ends first, and whether Done was called before or not, it is as with package context.
func TestEndsWithEither(t *testing.T) {
	why := errors.New("why")
	type scene struct {
		first, second context.CancelCauseFunc
		stop, look    func()
	}
	ends := map[string]func(s scene){
		"nothing":             func(scene) {},
		"the first":           func(s scene) { s.first(why) },
		"the second":          func(s scene) { s.second(why) },
		"the deadline":        func(scene) { time.Sleep(time.Minute) },
		"its caller":          func(s scene) { s.stop() },
		"the first, later":    func(s scene) { s.stop(); s.first(why) },
		"the deadline, later": func(s scene) { s.stop(); time.Sleep(time.Minute) },
		"the second, first":   func(s scene) { s.second(why); synctest.Wait(); s.look(); s.first(why) },
		"its caller, twice":   func(s scene) { s.stop(); s.stop() },
		"both, then stopped":  func(s scene) { s.first(why); s.second(why); s.stop() },
	}
	type seen struct {
		err, cause, child error
		done              bool
		value             any
		deadline          time.Time
	}
	look := func(t *testing.T, build func(a, b context.Context) (context.Context, func()), end func(scene), early bool) (s seen) {
		synctest.Test(t, func(t *testing.T) {
			first, endFirst := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
			timed, cancel := context.WithTimeout(first, 30*time.Second)
			defer cancel()
			second, endSecond := context.WithCancelCause(t.Context())
			defer endSecond(nil)
			c, stop := build(timed, second)
			defer stop()
			child, cancelChild := context.Background(), context.CancelFunc(func() {})
			if early {
				child, cancelChild = context.WithCancel(c)
			}
			end(scene{endFirst, endSecond, stop, func() { _ = c.Err() }})
			synctest.Wait()
			if !early {
				s.err = c.Err() // before Done
				child, cancelChild = context.WithCancel(c)
			}
			defer cancelChild()
			select {
			case <-c.Done():
				s.done = true
			default:
			}
			synctest.Wait()
			if got := c.Err(); !early && got != s.err {
				t.Errorf("Err is %v before Done, and %v after it", s.err, got)
			}
			s.err, s.cause, s.child, s.value = c.Err(), context.Cause(c), child.Err(), c.Value(key{})
			s.deadline, _ = c.Deadline()
			endFirst(nil)
		})
		return s
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for _, early := range []bool{true, false} {
				want := look(t, asPackageContext, end, early)
				if got := look(t, either, end, early); got != want {
					t.Errorf("with Done called early %v: got %+v, want %+v", early, got, want)
				}
			}
		})
	}
}

// The channels of the function Done say the same, and register nothing.
func TestDoneWithoutARegistration(t *testing.T) {
	open := func(ctx context.Context) bool {
		first, second := eitherctx.Done(ctx)
		select {
		case <-first:
		case <-second:
		default:
			return true
		}
		return false
	}
	first, endFirst := context.WithCancel(t.Context())
	defer endFirst()
	for _, ctx := range []context.Context{eitherctx.New(first, t.Context()), eitherctx.New(t.Context(), first), first} {
		if !open(ctx) {
			t.Error("ended")
		}
	}
	allocs := testing.AllocsPerRun(100, func() {
		c := eitherctx.New(t.Context(), first)
		defer c.Stop()
		if !open(c) || c.Err() != nil {
			t.Error("ended")
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want at most 1", allocs)
	}
	endFirst()
	for _, ctx := range []context.Context{eitherctx.New(first, t.Context()), eitherctx.New(t.Context(), first), first} {
		if open(ctx) {
			t.Error("not ended")
		}
	}
	if first, second := eitherctx.Done(context.Background()); first != nil || second != nil {
		t.Error("a ctx that never ends has a channel")
	}
}

// registered counts what waits for its end.
type registered struct {
	context.Context
	n int
}

func (r *registered) AfterFunc(func()) (stop func() bool) {
	r.n++
	return func() bool { r.n--; return true }
}

func (r *registered) Value(any) any { return nil } // or package context would look inside

// A call that outlives its caller may ask for the channel later.
func TestNothingStaysRegistered(t *testing.T) {
	for name, use := range map[string]func(c *eitherctx.Context){
		"stopped":             func(c *eitherctx.Context) { c.Stop() },
		"waited and stopped":  func(c *eitherctx.Context) { c.Done(); c.Stop() },
		"stopped, and waited": func(c *eitherctx.Context) { c.Stop(); c.Done(); c.Done() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := &registered{Context: ctx}, &registered{Context: ctx}
		if use(eitherctx.New(first, second)); first.n != 0 || second.n != 0 {
			t.Errorf("%s: %d and %d are registered", name, first.n, second.n)
		}
		cancel()
	}
	first, second := &registered{Context: t.Context()}, &registered{Context: t.Context()}
	c := eitherctx.New(first, second)
	if c.Done(); first.n != 1 || second.n != 1 {
		t.Errorf("while it waits %d and %d are registered, want 1 of each", first.n, second.n)
	}
	c.Stop()
}

// Who waits with the function Done may ask for the error before package context has told the Context.
func TestErrIsNotLate(t *testing.T) {
	for _, late := range []string{"first", "second"} {
		ctx, cancel := context.WithCancel(t.Context())
		first, second := &registered{Context: t.Context()}, &registered{Context: t.Context()}
		map[string]*registered{"first": first, "second": second}[late].Context = ctx // its AfterFunc never calls
		c := eitherctx.New(first, second)
		c.Done()
		cancel()
		one, other := eitherctx.Done(c)
		select {
		case <-one:
		case <-other:
		}
		if err := c.Err(); err != context.Canceled || c.Err() != err {
			t.Errorf("the %s has ended: %v, then %v", late, err, c.Err())
		}
		c.Stop()
	}
}
