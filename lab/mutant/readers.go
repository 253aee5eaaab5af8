package mutant

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// readers are bugs of readers that share a lease.
func readers() []Mutant {
	const file = "grant_shared.go"
	return []Mutant{
		{
			Name: "readers: newcomers join after a recall", File: file, World: virtual.Memory, Checks: []string{"passed"},
			Patches: []Patch{{"h.state != grantHeld || s.closed.Load() || now.Mono", "h.state != grantHeld || now.Mono"}},
		},
		{
			Name: "readers: a pushed grant can be joined like any other", File: file, World: virtual.Memory, Checks: []string{"passed"},
			Patches: []Patch{{"if a.recallable && !a.rivalled && !a.unsure {", "if a.recallable && !a.unsure {"}},
		},
		{
			Name: "readers: newcomers join as long as there are readers", File: file, World: virtual.Quorum, Checks: []string{"joined", "passed"},
			Patches: []Patch{{"s.closed.Load() || now.Mono >= s.until ||", "s.closed.Load() ||"}},
		},
		{
			Name: "readers: the last one does not release the lease", File: file, World: virtual.Memory, Checks: []string{"leftovers", "deadlock", "hand-off"},
			Patches: []Patch{{"			h.shared.seats--\n			return h.addLease(parent)\n", "			return h.addLease(parent)\n"}},
		},
		{
			Name: "readers: a lease is released although a caller has a seat", File: file, World: virtual.Memory, Checks: []string{"overlap", "inside", "model", "deadlock", "hand-off", "bubble"},
			Patches: []Patch{
				{"return len(h.leases) == 0 && (h.shared == nil || h.shared.seats == 0)", "return len(h.leases) == 0"},
				{"		if h.state == grantHeld {\n			defer", "		if h.state != grantBroken {\n			defer"},
			},
		},
		{
			Name: "readers: newcomers join a lease that is being released", File: file, World: virtual.Memory, Checks: []string{"overlap", "inside", "model", "errors", "tokens"},
			Patches: []Patch{
				{"	if h.state != grantHeld || s.closed", "	if s.closed"},
				{"	if key := h.acquirer.key(); g.all[key] == h {", "	if key := h.acquirer.key(); g.all[key] != h {"},
			},
		},
		{
			Name: "readers: the scripts recall no reader", File: "engine/goredis/internal/script/recall.lua", World: virtual.Redis, Checks: []string{"passed"},
			Limit:   2 * time.Minute,
			Patches: []Patch{{"  for _, name in ipairs(names) do\n", "  for _, name in ipairs(capacity == 1 and names or {}) do\n"}},
		},
		{
			Name: "readers: a writer that waits recalls one reader only", File: "internal/queue/recall.go", World: virtual.Memory, Checks: []string{"passed"},
			Patches: []Patch{{"q.byEnd.first(max(1, a.portion))", "q.byEnd.first(1)"}},
		},
	}
}
