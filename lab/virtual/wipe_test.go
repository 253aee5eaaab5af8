package virtual_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// TestWipeBesideARound plays a wipe whose next step is a round at the same instant: either the lease is granted by the store
// that loses its data, and the history has its end, or by the empty one.
func TestWipeBesideARound(t *testing.T) {
	ms := time.Millisecond
	p := virtual.Program{Seed: 9911, World: virtual.Documents, Processes: 4, Rates: []float64{1}, Steps: []virtual.Step{
		{Do: virtual.Slow, Process: 3, Node: -1, For: 5900 * ms, Delay: 233 * ms},
		{Do: virtual.Round, Lock: virtual.Counter, Name: "counter0", Weight: 1, TTL: 300 * ms, Wait: 8000 * ms},
		{Do: virtual.Round, Process: 3, Lock: virtual.Counter, Name: "counter0", Weight: 2, TTL: 1000 * ms, Wait: 8000 * ms, Sleep: 2178 * ms},
		{Do: virtual.Round, Process: 3, Lock: virtual.Election, Name: "election1", Weight: 1, TTL: 300 * ms, Wait: 8000 * ms},
		{Do: virtual.Wipe, Process: 2, For: 100 * ms, Name: "election1"},
		{Do: virtual.Round, Process: 2, Lock: virtual.Election, Name: "election1", Weight: 3, TTL: 15000 * ms, Wait: 8000 * ms},
	}}
	if r, played := virtual.Again(t, p, 100); len(r.Violations) > 0 {
		t.Errorf("run %d: %v", played, r.Violations)
	}
}

// TestWipeLosesRequests plays a wipe while a request that was made from older data is on its way, after a later grant.
func TestWipeLosesRequests(t *testing.T) {
	ms := time.Millisecond
	for seed := range uint64(20) {
		p := virtual.Program{Seed: seed, World: virtual.Documents, Processes: 2, Rates: []float64{1}, Steps: []virtual.Step{
			{Do: virtual.Slow, Process: 1, Node: -1, For: 5000 * ms, Delay: 1000 * ms, Sleep: 10 * ms},
			{Do: virtual.Round, Process: 1, Lock: virtual.Counter, Name: "counter0", Weight: 1, TTL: 1000 * ms, Wait: 8000 * ms, Sleep: ms},
			{Do: virtual.Round, Lock: virtual.Counter, Name: "counter0", Weight: 1, TTL: 1000 * ms, Wait: 8000 * ms, Sleep: ms},
			{Do: virtual.Wipe, For: 100 * ms},
		}}
		if r := virtual.Play(t, p); len(r.Violations) > 0 {
			t.Errorf("seed %d: %v", seed, r.Violations)
		}
	}
}

// TestWipeEndsEveryLease plays a wipe with rounds at the same instant, whose leases outlast the absence of the store: each lease that
// the wipe ends has its end in the history.
func TestWipeEndsEveryLease(t *testing.T) {
	ms := time.Millisecond
	round := func(process, i int, hold time.Duration) virtual.Step {
		return virtual.Step{Do: virtual.Round, Process: process, Lock: virtual.Stock, Name: fmt.Sprint("stock", i), Weight: 1,
			TTL: 15000 * ms, Wait: 4000 * ms, Hold: hold, Way: virtual.NoTenure}
	}
	p := virtual.Program{World: virtual.Documents, Processes: 2, Rates: []float64{1}}
	for i := range 40 { // leases that the wipe has to list
		p.Steps = append(p.Steps, round(0, i, 4000*ms))
	}
	p.Steps[39].Sleep = 10 * ms
	p.Steps = append(p.Steps, virtual.Step{Do: virtual.Wipe, For: 100 * ms})
	for i := range 10 {
		p.Steps = append(p.Steps, round(0, 100+i, 4000*ms))
	}
	p.Steps[len(p.Steps)-1].Sleep = 300 * ms
	for i := range 10 {
		p.Steps = append(p.Steps, round(1, 100+i, 10*ms))
	}
	if r, played := virtual.Again(t, p, 25); len(r.Violations) > 0 {
		t.Errorf("run %d: %v", played, r.Violations)
	}
}

// TestTwoWipesOfOneHolder plays two wipes of leases with one holder ID: the reply to the first grant arrives after the wipe, the
// request is repeated, and the store grants it again.
func TestTwoWipesOfOneHolder(t *testing.T) {
	ms := time.Millisecond
	round := func(process int, lock virtual.Lock, name string, weight int, ttl, wait, hold, sleep time.Duration) virtual.Step {
		return virtual.Step{Do: virtual.Round, Process: process, Lock: lock, Name: name, Weight: weight, TTL: ttl * ms, Wait: wait * ms, Hold: hold * ms, Sleep: sleep * ms}
	}
	p := virtual.Program{Seed: 6002384, World: virtual.TimedDocuments, Processes: 3, Rates: []float64{1}, Steps: []virtual.Step{
		{Do: virtual.Slow, Process: 1, Node: -1, For: 4700 * ms, Delay: 514 * ms, Name: "semaphore1"},
		round(1, virtual.Readers, "readers0", 1, 1000, 8000, 0, 0),
		round(1, virtual.Readers, "readers1", 2, 2000, 966, 0, 0),
		round(1, virtual.Readers, "readers1", 2, 5000, 8000, 2300, 0),
		round(0, virtual.Semaphore, "semaphore0", 2, 15000, 8000, 0, 2836),
		{Do: virtual.Wipe, Process: 2, For: 700 * ms, Name: "readers0"},
		round(1, virtual.Semaphore, "semaphore1", 1, 300, 8000, 0, 0),
		round(0, virtual.Readers, "readers0", 3, 2000, 8000, 0, 1061),
		{Do: virtual.Wipe, Process: 1, For: 100 * ms, Name: "readers0"},
		round(0, virtual.Readers, "readers1", 2, 15000, 8000, 11900, 0),
	}}
	if r, played := virtual.Again(t, p, 25); len(r.Violations) > 0 {
		t.Errorf("run %d: %v", played, r.Violations)
	}
}
