package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A reading goes on when its reader leaves, and the others get it. A panic does not stop the next one.
func TestLatestOutlivesItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := latest[int]{every: time.Second, read: func(ctx context.Context) (int, error) {
			if n++; n == 1 {
				panic("a bad engine")
			}
			select {
			case <-time.After(10 * time.Second):
				return n, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		func() {
			defer func() { _ = recover() }() // as net/http does
			_, _ = l.get(t.Context())
		}()
		done := make(chan error)
		for stay := range 3 { // the first makes the reading
			ctx, leave := context.WithTimeout(t.Context(), time.Duration(1+10*stay)*time.Second)
			defer leave()
			go func() {
				r, err := l.get(ctx)
				if err == nil && r.value != 2 {
					t.Errorf("%+v, want 2", r)
				}
				done <- err
			}()
			synctest.Wait()
		}
		if err := <-done; stayed(err, <-done, <-done) != 2 {
			t.Error("want the one that left to fail, and the others to have its reading")
		}
		if n != 2 {
			t.Errorf("%d readings, want 2 with the one that panicked", n)
		}
	})
}

func stayed(all ...error) (n int) {
	for _, err := range all {
		if err == nil {
			n++
		}
	}
	return n
}

// A store is read for a fifth of the time, also while readings fail: one that is overloaded fails after long.
func TestFailedReadingsAreAsFarApart(t *testing.T) {
	for _, took := range []time.Duration{0, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			l := latest[int]{every: time.Second, read: func(context.Context) (int, error) {
				n++
				time.Sleep(took)
				return 0, errors.New("overloaded")
			}}
			const span = 10 * time.Minute
			for began := time.Now(); time.Since(began) < span; {
				r, err := l.get(t.Context())
				if err != nil || r.err == nil || r.ok || r.failed.IsZero() {
					t.Fatalf("%+v, %v; want a failed reading", r, err)
				}
				time.Sleep(time.Until(r.due))
			}
			if want := int(span / max(time.Second, 5*took)); n != want {
				t.Errorf("each fails after %v: %d readings in %v, want %d", took, n, span, want)
			}
		})
	}
}
