package mutant

import "github.com/holdfast-go/holdfast/lab/virtual"

// lingers are bugs of leases that are kept after their last release, and of recalls.
func lingers() []Mutant {
	const file = "linger.go"
	return []Mutant{
		{
			Name: "linger: a parked lease is reused after a recall", File: file, World: virtual.Memory, Checks: []string{"idle", "passed"},
			Patches: []Patch{
				{"	if !l.wanted.Swap(true) {\n		h.endLinger()\n	}\n", "	l.wanted.Store(true)\n"},
				{"	if l.wanted.Load() || h.jeopardy.Load() != renewalDone || token", "	if h.jeopardy.Load() != renewalDone || token"},
			},
		},
		{
			Name: "linger: a recall of a lease in use is forgotten", File: file, World: virtual.Memory, Checks: []string{"idle", "passed"},
			Patches: []Patch{
				{"	if l == nil || l.wanted.Load() || h.unsure", "	if l == nil || h.unsure"},
				{"	if l.wanted.Load() || h.ended() { // in between", "	if h.ended() { // in between"},
			},
		},
		{
			Name: "linger: a pushed grant is kept", File: file, World: virtual.Memory, Checks: []string{"idle", "passed"},
			Patches: []Patch{{"if !a.recallable || a.rivalled || a.unsure {", "if !a.recallable || a.unsure {"}},
		},
		{
			Name: "linger: a lease is kept without a subscription", File: file, World: virtual.Memory, Checks: []string{"idle", "passed", "refused"},
			Patches: []Patch{{"	if first := a.c.recalls.first(); first && !m.live() {", "	if !m.live() {\n		return\n	}\n	if first := a.c.recalls.first(); first && !m.live() {"}},
		},
		{
			Name: "linger: the timer does nothing", File: file, World: virtual.Memory, Checks: []string{"idle", "leftovers"},
			Patches: []Patch{{"time.AfterFunc(in, h.lingerOver)", "time.AfterFunc(in, func() {})"}},
		},
		{
			Name: "linger: Close leaves a parked lease", File: "client_close.go", World: virtual.Memory, Checks: []string{"leftovers", "idle"},
			Patches: []Patch{{"		leases, was := h.end(nil)\n", "		if h.linger != nil && len(h.leases) == 0 {\n			return true\n		}\n		leases, was := h.end(nil)\n"}},
		},
		{
			Name: "linger: a refused try sends no recall", File: "internal/queue/recall.go", World: virtual.Memory, Checks: []string{"refused"},
			Patches: []Patch{{"a.Position == 0 || a.Status == Busy && r.Ballot == 0", "a.Position == 0 || a.Status == Busy && r.Ballot == 1"}},
		},
		{
			Name: "linger: the script of an acquire sends no recall on its fast path", File: "engine/goredis/internal/script/recall.lua", World: virtual.Redis,
			Checks:  []string{"idle", "passed"},
			Patches: []Patch{{"if string.byte(held[1], -1) == RECALL and", "if string.byte(held[1], -1) == 0 and"}},
		},
	}
}
