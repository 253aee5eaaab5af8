package virtual_test

import (
	"path/filepath"
	"reflect"
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
