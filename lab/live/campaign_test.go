package live

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// A campaign without grants, without a kind of its faults or without calm runs fails.
func TestHollowCampaigns(t *testing.T) {
	full := func() Summary {
		return Summary{Setting: Setting{Subject: "holdfast"}, Played: manyGrants, Grants: 100, Windows: 300, Lingered: 30, Recalls: 3, Calm: 5, Rated: 1,
			Rolled: Rolled{Kept: 1, Lost: 1}, Controls: []ControlResult{{Name: "x", Broken: true}},
			Recorded: Recorded{Turns: 50, Grants: 1, Waits: 1, Breaks: 1, Killed: 1, Lines: 1}, Logged: true,
			Planned: map[fault.Kind]int{fault.Cut: manyPlanned, fault.Kill: 1}, Hit: map[fault.Kind]int{fault.Cut: 1, fault.RollBack: manyRolled}}
	}
	if why := full().Hollow(); len(why) > 0 {
		t.Error(why)
	}
	for name, change := range map[string]func(*Summary){
		"no lease was granted": func(s *Summary) { s.Grants = 0 },
		"no window":            func(s *Summary) { s.Windows = 0 },
		"none was kept":        func(s *Summary) { s.Lingered = 0 },
		"none was recalled":    func(s *Summary) { s.Recalls = 0 },
		"no turn recorded":     func(s *Summary) { s.Recorded.Turns = 0 },
		"no grant recorded":    func(s *Summary) { s.Recorded.Grants = 0 },
		"no wait recorded":     func(s *Summary) { s.Recorded.Waits = 0 },
		"no break recorded":    func(s *Summary) { s.Recorded.Breaks = 0 },
		"no killed client":     func(s *Summary) { s.Recorded.Killed = 0 },
		"no line of log":       func(s *Summary) { s.Recorded.Lines = 0 },
		"a kind was never hit": func(s *Summary) { s.Hit = nil },
		"none was calm":        func(s *Summary) { s.Calm = 0 },
		"no lease in a copy":   func(s *Summary) { s.Rolled.Kept = 0 },
		"no lease was lost":    func(s *Summary) { s.Rolled.Lost = 0 },
		"no clock of its own":  func(s *Summary) { s.Rated = 0 },
		"a control passed":     func(s *Summary) { s.Controls[0].Broken = false },
	} {
		s := full()
		change(&s)
		if why := s.Hollow(); len(why) != 1 {
			t.Errorf("%s: %q", name, why)
		}
	}
	for subject, hollow := range map[string]bool{"holdfast-postgres": true, "holdfast-etcd-three": true, "holdfast-zookeeper": true, "holdfast-zookeeper-three": false} {
		s := full()
		s.Setting.Subject, s.Windows, s.Lingered, s.Recalls, s.Recorded, s.Logged = subject, 0, 0, 0, Recorded{}, false
		if why := s.Hollow(); (len(why) > 0) != hollow {
			t.Errorf("no window on %s: %q", subject, why)
		}
	}
	quorum := full()
	quorum.Logged, quorum.Recorded.Lines = false, 0
	if why := quorum.Hollow(); len(why) > 0 {
		t.Errorf("runs without the command, or on several stores: %q", why)
	}
	spared := full()
	spared.Setting.Stores, spared.Windows, spared.Lingered, spared.Recalls, spared.Recorded = OtherStores, 0, 0, 0, Recorded{}
	if why := spared.Hollow(); len(why) > 0 {
		t.Errorf("stores of others, which are not recorded: %q", why)
	}
	sentinel := full()
	sentinel.Setting.Subject, sentinel.Promotions, sentinel.Carried, sentinel.LostOver = "holdfast-sentinel", 5, 3, 1
	if why := sentinel.Hollow(); len(why) > 0 {
		t.Errorf("with failovers: %q", why)
	}
	for name, change := range map[string]func(*Summary){
		"no failover": func(s *Summary) { s.Promotions = 0 },
		"no lease":    func(s *Summary) { s.Carried = 0 },
		"no loss":     func(s *Summary) { s.LostOver = 0 },
		"no window":   func(s *Summary) { s.Windows = 0 },
	} {
		s := sentinel
		change(&s)
		if why := s.Hollow(); len(why) != 1 {
			t.Errorf("%s: %q", name, why)
		}
	}
	for kind, change := range map[Kind]func(*Summary){
		Election: func(s *Summary) { s.Terms = 0 },
		Latch:    func(s *Summary) { s.Waited = 0 },
		Cond:     func(s *Summary) { s.Waited = 0 },
	} {
		s := full()
		s.Setting.Kind, s.Terms, s.Waited = kind, 5, 5
		if why := s.Hollow(); len(why) > 0 {
			t.Errorf("%s: %q", kind, why)
		}
		if change(&s); len(s.Hollow()) != 1 {
			t.Errorf("%s that shows nothing: %q", kind, s.Hollow())
		}
	}
	confirmed := sentinel
	confirmed.Setting.Subject, confirmed.LostOver = "holdfast-sentinel-replicas", 0
	if why := confirmed.Hollow(); len(why) > 0 {
		t.Errorf("failovers that may lose nothing: %q", why)
	}
	other := full()
	other.Setting.Subject, other.Calm = "token-lua", 0
	if why := other.Hollow(); len(why) > 0 {
		t.Errorf("another lock: %q", why)
	}
}
