package virtual

import "testing"

// A campaign without grants, or of some hundred programs without something that one of its faults hit, fails.
func TestHollowCampaigns(t *testing.T) {
	full := func(w World) Summary {
		s := Summary{Played: manyForFaults, Grants: 1, Shared: 1, Hit: map[Action]int{},
			Lingered: Lingered{Kept: 1, Taken: 1, Recalls: 1, Lost: 1, Doubled: 1, Met: map[Action]int{Restart: 1}}}
		for _, a := range w.faults() {
			s.Hit[a] = 1
		}
		for _, a := range lingerFaults {
			s.Lingered.Met[a] = 1
		}
		return s
	}
	hollow := func(name string, w World, s Summary, want int) {
		t.Helper()
		if why := s.Hollow(w); len(why) != want {
			t.Errorf("%s, %s: %q; want %d", w, name, why, want)
		}
	}
	for _, w := range []World{Memory, Quorum, Redis, Documents, TimedDocuments} {
		s := full(w)
		hollow("full", w, s, 0)
		s.Grants = 0
		hollow("no grant", w, s, 1)
		for _, a := range w.faults() {
			s := full(w)
			delete(s.Hit, a)
			hollow("no "+string(a), w, s, 1)
		}
		hollow("one program without a grant", w, Summary{Played: 1}, 1)
		hollow("some programs without faults", w, Summary{Played: manyPrograms - 1, Grants: 1}, 0)
		hollow("nothing was played", w, Summary{}, 0)
	}
}
