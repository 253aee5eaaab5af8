package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// BenchmarkTry is a TryLock of a resource that is held, by a process of its own each: the first that sees a renewal, which
// makes a witness of it, and the second. It reports medians.
func BenchmarkTry(b *testing.B, open func() engine.Engine) {
	b.Helper()
	request := func(id string) engine.Request {
		return engine.Request{Resource: engine.Resource{Prefix: b.Name(), Name: "job"}, ID: id, Client: &engine.Client{ID: engine.ClientOf(id)},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute}
	}
	holder := open()
	held, err := holder.Acquire(b.Context(), request("holder.1"))
	if err != nil {
		b.Fatal(err)
	}
	var took [2][]time.Duration
	for b.Loop() {
		err := holder.Renew(b.Context(), []engine.Renewal{{Resource: request("").Resource, Held: engine.Held{ID: "holder.1", Token: held.Token}, TTL: time.Minute}})[0]
		if err != nil {
			b.Fatal(err)
		}
		for i := range took {
			e, began := open(), time.Now()
			a, err := e.Acquire(b.Context(), request("try.1"))
			if took[i] = append(took[i], time.Since(began)); err != nil || a.Status != engine.Busy {
				b.Fatalf("%v, %v", a.Status, err)
			}
		}
	}
	for i, unit := range []string{"first-µs", "second-µs"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), unit)
	}
	if err := holder.Release(b.Context(), engine.Release{Resource: request("").Resource, Held: engine.Held{ID: "holder.1", Token: held.Token}}); err != nil {
		b.Fatal(err)
	}
}
