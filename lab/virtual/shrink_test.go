package virtual_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// The program of a seed is always the same.
func TestDrawIsDeterministic(t *testing.T) {
	for seed := range uint64(200) {
		for _, world := range []virtual.World{virtual.Memory, virtual.Quorum, virtual.Redis, virtual.Documents, virtual.TimedDocuments} {
			if a, b := virtual.Draw(seed, world), virtual.Draw(seed, world); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d: %+v and %+v", seed, a, b)
			}
		}
	}
}

// Every fault is drawn, and so are clocks that are apart, run at other rates or are set.
func TestEveryFaultIsDrawn(t *testing.T) {
	drawn, apart, rates := map[virtual.Action]int{}, 0, 0
	for seed := range uint64(2000) {
		for _, world := range []virtual.World{virtual.Memory, virtual.Quorum, virtual.Redis, virtual.Documents, virtual.TimedDocuments} {
			p := virtual.Draw(seed, world)
			if slices.Max(p.Rates) != 1 || slices.Min(p.Rates) != 1 {
				rates++
			}
			if len(p.Ahead) > 0 {
				apart++
			}
			for _, s := range p.Steps {
				drawn[s.Do]++
			}
		}
	}
	for _, a := range []virtual.Action{virtual.Pause, virtual.Crash, virtual.Cut, virtual.Hang, virtual.Deaf, virtual.Mute, virtual.Slow,
		virtual.Twice, virtual.Down, virtual.Wipe, virtual.Break, virtual.Jump, virtual.Restart, virtual.Visits} {
		if drawn[a] == 0 {
			t.Errorf("no %s was drawn", a)
		}
	}
	if apart == 0 || rates == 0 {
		t.Errorf("clocks of a quorum apart in %d programs, other rates in %d", apart, rates)
	}
}

// A failure that is caused by two steps is shrunk to at most three, and its replay file
// repeats it. The steps acquire a lease of a day and kill its process.
func TestShrinkAndReplay(t *testing.T) {
	p := virtual.Draw(7, virtual.Memory)
	for p.Seed = 7; len(p.Steps) < 20; p.Seed++ {
		p = virtual.Draw(p.Seed, virtual.Memory)
	}
	p.Steps = append(p.Steps,
		virtual.Step{Do: virtual.Round, Lock: virtual.Counter, Name: "counter9", TTL: 24 * time.Hour, Wait: time.Second, Hold: time.Hour, Sleep: time.Second},
		virtual.Step{Do: virtual.Crash, For: time.Second})
	r := virtual.Play(t, p)
	if len(r.Violations) == 0 {
		t.Fatal("the planted failure does not show")
	}
	small := virtual.Shrink(t, r, 20*time.Second)
	if n := len(small.Program.Steps); n > 3 {
		t.Errorf("%d steps are left of %d", n, len(p.Steps))
	}
	file := filepath.Join(t.TempDir(), "failure.json")
	if err := small.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := virtual.Load(file)
	if err != nil || !reflect.DeepEqual(loaded.Program, small.Program) {
		t.Fatalf("loaded %+v, %v", loaded.Program, err)
	}
	again, played := virtual.Again(t, loaded.Program, 20)
	if len(again.Violations) == 0 {
		t.Errorf("played %d times, and it did not fail again", played)
	}
}
