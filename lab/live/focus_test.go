package live

import (
	"reflect"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// The program of a seed is always the same, with a focus too.
func TestDrawIsDeterministic(t *testing.T) {
	for seed := range uint64(20) {
		for _, subject := range []string{"holdfast", "holdfast-quorum", "holdfast-etcd", "redlock"} {
			for _, f := range append(Foci(subject), "") {
				s := Setting{Subject: subject, Focus: f}
				if a, b := Draw(seed, s), Draw(seed, s); !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d: %+v and %+v", seed, a, b)
				}
			}
		}
	}
}

// Every kind of fault is drawn for one Redis and for a quorum, and so are clocks of other rates, and a worker that is cut off from a majority.
func TestEveryFaultIsDrawn(t *testing.T) {
	if !CanRateClocks() {
		t.Error("libfaketime is not installed: make redis installs it on Linux")
	}
	replicas := []fault.Kind{fault.Failover, fault.Promote, fault.HoldBack}
	never := append([]fault.Kind{fault.Stall, fault.SlowDisk}, replicas...) // a real process is paused, a slow disk needs its focus, and one Redis has no replica
	for _, subject := range []string{"holdfast", "holdfast-quorum"} {
		drawn, rated, parted := map[fault.Kind]int{}, 0, 0
		for seed := range uint64(400) {
			p := Draw(seed, Setting{Subject: subject})
			count(drawn, p.Faults)
			if len(p.Rates) == p.Nodes {
				rated++
			}
			if isParted(t, p) {
				parted++
			}
		}
		for _, k := range fault.Kinds() {
			if (drawn[k] == 0) != slices.Contains(never, k) {
				t.Errorf("%s: %s was drawn %d times", subject, k, drawn[k])
			}
		}
		if rated == 0 || parted == 0 && subject == "holdfast-quorum" {
			t.Errorf("%s: clocks of other rates in %d programs, a worker cut off from a majority in %d", subject, rated, parted)
		}
	}
	drawn := map[fault.Kind]int{}
	for seed := range uint64(400) {
		count(drawn, Draw(seed, Setting{Subject: "holdfast-sentinel"}).Faults)
	}
	for _, k := range replicas {
		if drawn[k] == 0 {
			t.Errorf("holdfast-sentinel: %s was not drawn", k)
		}
	}
	spared := Draw(1, Setting{Subject: "holdfast", Stores: OtherStores, Focus: ClockRates})
	if len(spared.Rates) > 0 {
		t.Errorf("stores of others have the rates %v", spared.Rates)
	}
}

// isParted reports whether in a program one worker is cut off from a majority of the nodes at once.
func isParted(t *testing.T, p Program) bool {
	t.Helper()
	all, err := p.schedule()
	if err != nil {
		t.Fatal(err)
	}
	type cut struct {
		kind fault.Kind
		who  string
		at   fault.When
	}
	nodes := map[cut]int{}
	for _, f := range all {
		if slices.Contains([]fault.Kind{fault.Blackhole, fault.Deafen, fault.Mute}, f.Kind) {
			nodes[cut{f.Kind, bearer(f.Target), f.At}]++
		}
	}
	for _, n := range nodes {
		if p.Nodes > 1 && n > p.Nodes/2 {
			return true
		}
	}
	return false
}

// Each program with a focus has its fault, and no worker or store has two that clash.
func TestFocusIsInEachProgram(t *testing.T) {
	for _, subject := range []string{"holdfast", "holdfast-quorum"} {
		for _, f := range Foci(subject) {
			for seed := range uint64(100) {
				p := Draw(seed, Setting{Subject: subject, Focus: f})
				kinds := map[fault.Kind]int{}
				count(kinds, p.Faults)
				has := map[Focus]bool{RollBack: kinds[fault.RollBack] > 0 && kinds[fault.Copy] >= kinds[fault.RollBack], Muted: kinds[fault.Mute] > 0, SlowDisk: kinds[fault.SlowDisk] > 0,
					Partition: isParted(t, p), ClockRates: len(p.Rates) == p.Nodes}
				if !has[f] {
					t.Fatalf("seed %d of %s: no %s in %q, rates %v", seed, subject, f, p.Faults, p.Rates)
				}
				if f == RollBack && p.Nodes > 1 && kinds[fault.RollBack] > p.Nodes/2+1 { // one of them may be of another draw
					t.Fatalf("seed %d of %s: more than a minority is rolled back: %q", seed, subject, p.Faults)
				}
			}
		}
	}
}
