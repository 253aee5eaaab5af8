package cas

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A caller makes the call of its own request at most. Here the first request in the line has a call of its own, which
// lasts, and the caller whose turn it is to make a call has another one.
func TestCallerMakesNoCallForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		b := newGroupedCall(func(_ context.Context, ins []string) ([]string, error) {
			if ins[0] == "long" {
				<-over
			}
			return ins, nil
		}, time.Minute)
		long := &item[string, string]{in: "long", came: time.Now(), done: make(chan struct{}), most: 1}
		b.main.waiting = append(b.main.waiting, long)
		answered := make(chan string, 2)
		for _, in := range []string{"a", "b"} {
			go func() {
				out, _, _ := b.do(in, false)
				answered <- out
			}()
			synctest.Wait()
		}
		for range 2 {
			select {
			case <-answered:
			case <-time.After(time.Second):
				t.Error("a caller waits for the call of another")
			}
		}
		close(over)
		<-long.done
	})
}

// requests makes requests at the same time while other calls are under way, and returns the number of calls that have been made for
// them, by their sizes.
func requests(n int, call func(ins []int) error, outcome func(in int, again bool, err error)) map[int]int {
	calls := make(map[int]int)
	var mu sync.Mutex
	b := newGroupedCall(func(_ context.Context, ins []int) ([]int, error) {
		time.Sleep(time.Millisecond) // others come meanwhile
		if ins[0] < 0 {
			return ins, nil
		}
		mu.Lock()
		calls[len(ins)]++
		mu.Unlock()
		return ins, call(ins)
	}, time.Minute)
	var all sync.WaitGroup
	for i := range callsAtOnce {
		all.Go(func() { b.do(-1-i, false) })
		synctest.Wait()
	}
	for i := range n {
		all.Go(func() {
			_, again, err := b.do(i, false)
			outcome(i, again, err)
		})
	}
	all.Wait()
	return calls
}

// A call of 64 that fails because of one of them is separated into eighths, twice.
func TestOneOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad = 30
		calls := requests(callSize, func(ins []int) error {
			for _, in := range ins {
				if in == bad {
					return OneOfMany(engine.ErrDenied)
				}
			}
			return nil
		}, func(in int, again bool, err error) {
			if (in == bad) != (err != nil) || !again {
				t.Errorf("%d: %v, made again %t", in, err, again)
			}
		})
		if calls[callSize] != 1 || calls[8] != 8 || calls[1] != 8 || len(calls) != 3 {
			t.Errorf("the calls by their sizes: %v, want 1 of 64, 8 of 8 and 8 of 1", calls)
		}
	})
}

// A call that the store denies as a whole is not separated: no smaller one would succeed.
func TestDeniedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := requests(1000, func([]int) error { return engine.ErrDenied }, func(in int, _ bool, err error) {
			if !errors.Is(err, engine.ErrDenied) {
				t.Errorf("%d: %v", in, err)
			}
		})
		n := 0
		for _, of := range calls {
			n += of
		}
		if n > 2*1000/callSize {
			t.Errorf("%d calls for 1000 requests, by their sizes: %v", n, calls)
		}
	})
}
