package live

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// A campaign without grants, without a kind of its faults or without calm runs fails.
func TestHollowCampaigns(t *testing.T) {
	full := func() Summary {
		return Summary{Setting: Setting{Subject: "holdfast"}, Played: manyRuns, Grants: 100, Windows: 300, Lingered: 30, Recalls: 3, Logged: 50, Calm: 5,
			Planned: map[fault.Kind]int{fault.Cut: manyPlanned, fault.Kill: 1}, Hit: map[fault.Kind]int{fault.Cut: 1}}
	}
	if why := full().Hollow(); len(why) > 0 {
		t.Error(why)
	}
	for name, change := range map[string]func(*Summary){
		"no lease was granted": func(s *Summary) { s.Grants = 0 },
		"no window":            func(s *Summary) { s.Windows = 0 },
		"none was kept":        func(s *Summary) { s.Lingered = 0 },
		"none was recalled":    func(s *Summary) { s.Recalls = 0 },
		"none was logged":      func(s *Summary) { s.Logged = 0 },
		"a kind was never hit": func(s *Summary) { s.Hit = nil },
		"none was calm":        func(s *Summary) { s.Calm = 0 },
	} {
		s := full()
		change(&s)
		if why := s.Hollow(); len(why) != 1 {
			t.Errorf("%s: %q", name, why)
		}
	}
	spared := full()
	spared.Setting.Stores, spared.Windows, spared.Lingered, spared.Recalls, spared.Logged = OtherStores, 0, 0, 0, 0
	if why := spared.Hollow(); len(why) > 0 {
		t.Errorf("stores of others, which are not recorded: %q", why)
	}
	other := full()
	other.Setting.Subject, other.Calm = "token-lua", 0
	if why := other.Hollow(); len(why) > 0 {
		t.Errorf("another lock: %q", why)
	}
}
