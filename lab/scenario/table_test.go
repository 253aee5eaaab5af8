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

// Every old lock and every peer has a scenario; every scenario has a description and a
// trial of Holdfast.
func TestTheTableIsComplete(t *testing.T) {
	rows := map[string]int{}
	ids := map[string]bool{}
	for _, s := range scenario.All() {
		rows[s.Row]++
		trials := s.Subjects()
		if ids[s.ID] || s.Hole == "" || !strings.HasPrefix(s.ID, s.Row+"/") || trials[0] != s.Row {
			t.Errorf("%s: listed twice, without a description, or not named after its row", s.ID)
		}
		ids[s.ID] = true
		if len(trials) < 2 || slices.ContainsFunc(trials[1:], func(id string) bool { return !strings.HasPrefix(id, "holdfast") }) {
			t.Errorf("%s has trials of %q", s.ID, trials)
		}
		for _, c := range s.Trials {
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

// A run fails if one of its faults never happened.
func TestAMissedFaultIsAnError(t *testing.T) {
	env := scenario.NewEnv(catalog())
	defer env.Close()
	all := scenario.All()
	i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.ID == "set-nx-del/failed-attempt" })
	s := all[i]
	s.Trials = slices.Clone(s.Trials)
	s.Trials[0].Faults = "stall a at a:no-such-point until b:held"
	if _, err := s.Run(context.Background(), env, s.Row); err == nil || !strings.Contains(err.Error(), "never hit") {
		t.Errorf("missed: %v", err)
	}
	s.Trials[0].Faults = "restart a at a:held"
	if _, err := s.Run(context.Background(), env, s.Row); err == nil {
		t.Error("a fault that cannot happen passes")
	}
	if _, err := s.Run(context.Background(), env, "redlock"); err == nil {
		t.Error("it ran with a subject that it has no trial of")
	}
}
