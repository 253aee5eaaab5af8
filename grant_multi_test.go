package holdfast

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// A process that was paused learns from a Multi as from any lease: by the clock,
// before a timer runs.
func TestMultiChecksTheClock(t *testing.T) {
	for name, check := range map[string]func(*Lease) error{
		"Err":          (*Lease).Err,
		"Context.Err":  func(l *Lease) error { return context.Cause(l.Context()) },
		"Context.Done": func(l *Lease) error { <-l.Context().Done(); return l.Err() },
		"Done":         func(l *Lease) error { <-l.Done(); return l.Err() },
		"Release":      func(l *Lease) error { return l.Release(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := opened(t).Multi([]string{"a", "b"}).Lock(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			ctx := l.Context()
			l.grant.(*multiGrant).part("b").shutWindow()
			if name == "Context.Err" && ctx.Err() == nil {
				t.Error("the context has not ended")
			}
			var lost *LostError
			if err := check(l); !errors.As(err, &lost) || lost.Resource != "b" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A loss of the whole takes several steps. Between them it already has its error.
func TestMultiThatIsBeingLostHasItsError(t *testing.T) {
	l, err := opened(t).Multi([]string{"a", "b"}).Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b, why := l.grant.(*multiGrant), &LostError{Resource: "a", Cause: LostDeleted}
	l.mu.Lock() // the lease cannot end yet
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.end(why)
	}()
	for {
		b.mu.Lock()
		state := b.state
		b.mu.Unlock()
		if state == multiEnded {
			break
		}
		runtime.Gosched()
	}
	if err := b.endError(); err != error(why) {
		t.Errorf("got %v", err)
	}
	l.mu.Unlock()
	<-ended
}
