package scenario_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/scenario"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
)

// Every old lock and every peer has a scenario, every scenario is also played by
// Holdfast, and says what it shows.
func TestTheTableIsComplete(t *testing.T) {
	rows := map[string]int{}
	ids := map[string]bool{}
	for _, s := range scenario.All() {
		rows[s.Row]++
		cast := s.Subjects()
		if ids[s.ID] || s.Hole == "" || !strings.HasPrefix(s.ID, s.Row+"/") || cast[0] != s.Row {
			t.Errorf("%s: twice, without words, or not its row's", s.ID)
		}
		ids[s.ID] = true
		if len(cast) < 2 || slices.ContainsFunc(cast[1:], func(id string) bool { return !strings.HasPrefix(id, "holdfast") }) {
			t.Errorf("%s is played by %q", s.ID, cast)
		}
		for _, c := range s.Casts {
			if _, err := catalog().Find(c.Subject); err != nil {
				t.Error(err)
			}
			if _, err := fault.ParseSchedule(c.Faults); err != nil {
				t.Error(err)
			}
		}
	}
	for _, s := range append(subject.Old(), peer.All()...) {
		if rows[s.ID] == 0 {
			t.Errorf("nothing shows the hole of %s", s.ID)
		}
	}
}

// A fault that never happens makes a run an error, not a pass.
func TestAMissedFaultIsAnError(t *testing.T) {
	env := scenario.NewEnv(catalog())
	defer env.Close()
	all := scenario.All()
	i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.ID == "set-nx-del/failed-attempt" })
	s := all[i]
	s.Casts = slices.Clone(s.Casts)
	s.Casts[0].Faults = "stall a at a:no-such-point until b:held"
	if _, err := s.Run(context.Background(), env, s.Row); err == nil || !strings.Contains(err.Error(), "never hit") {
		t.Errorf("missed: %v", err)
	}
	s.Casts[0].Faults = "restart a at a:held"
	if _, err := s.Run(context.Background(), env, s.Row); err == nil {
		t.Error("a fault that cannot happen passes")
	}
	if _, err := s.Run(context.Background(), env, "redlock"); err == nil {
		t.Error("it was played by a subject that is not in its cast")
	}
}
