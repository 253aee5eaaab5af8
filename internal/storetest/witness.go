package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// witnessTime is for how long a witness is made.
const witnessTime = 5 * time.Second

// WitnessOutlives requires that a witness that is made before servers fail is there for its time, and vanishes when they
// are back. fail is called 2 s after the witness was made, and returns when all is well again.
func WitnessOutlives(t *testing.T, s cas.WitnessStore, fail func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	sent := time.Now()
	name, lasts, err := s.Witness(ctx, t.Name(), witnessTime)
	for err != nil { // the servers may still suffer from an earlier failure
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
		sent = time.Now()
		name, lasts, err = s.Witness(ctx, t.Name(), witnessTime)
	}
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		<-time.After(2 * time.Second)
		fail()
	}()
	for {
		states, err := s.Witnesses(ctx, t.Name(), []string{name})
		if after := time.Since(sent); err == nil && states[0] == cas.WitnessVanished {
			if after < lasts {
				redistest.Broken(t, "a witness that lasts for %v vanished after %v", lasts, after)
			}
			t.Logf("a witness that lasts for %v vanished after %v", lasts, after.Round(time.Millisecond))
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("after %v the witness is still there: %v", time.Since(sent), err)
		}
	}
	<-failed
}

// WitnessOfAnother requires that a witness of one store is known to be foreign in another one, to which documents may
// have been copied.
func WitnessOfAnother(t *testing.T, one, other cas.WitnessStore) {
	t.Helper()
	for _, s := range []cas.WitnessStore{one, other} {
		if _, _, err := s.Witness(t.Context(), t.Name(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	name, _, err := one.Witness(t.Context(), t.Name(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if states, err := other.Witnesses(t.Context(), t.Name(), []string{name}); err != nil || states[0] != cas.WitnessForeign {
		t.Errorf("a witness of another store: %v, %v", states, err)
	}
}
