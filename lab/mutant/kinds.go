package mutant

import "github.com/holdfast-go/holdfast/lab/live"

// kinds are bugs of primitives that only live programs have.
func kinds() []Mutant {
	return []Mutant{
		{
			Name: "an election has two leaders", File: "election.go", World: Live, Kind: live.Election, Checks: []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{{"kind: engine.KindElection, capacity: 1, opts: o", "kind: engine.KindElection, capacity: 2, opts: o"}},
		},
		{
			Name: "an observer sees each term with the token before", File: "election.go", World: Live, Kind: live.Election, Checks: []string{"terms"},
			Patches: []Patch{{"HolderID: h.ID, Token: h.Token, Since", "HolderID: h.ID, Token: h.Token - 1, Since"}},
		},
		{
			Name: "a latch opens one too early", File: "latch_round.go", World: Live, Kind: live.Latch, Checks: []string{"latch"},
			Patches: []Patch{{"r.unitsUsage(), 1)\n	return err == nil", "r.unitsUsage(), min(2, r.count))\n	return err == nil"}},
		},
		{
			Name: "a Multi that fails keeps its first part", File: "multi.go", World: Live, Kind: live.Several, Checks: []string{"stuck", "leftovers", "deadlock"},
			Patches: []Patch{{"	await(m.c.releaseLeases(m.title(), b.parts...), callGrace) // the rest", "	await(m.c.releaseLeases(m.title(), b.parts[min(1, len(b.parts)):]...), callGrace) // the rest"}},
		},
		{
			Name: "a Multi does not end with one of its parts", File: "grant_multi.go", World: Live, Kind: live.Several,
			Checks: []string{"end-seen", "ended", "overlap", "notified", "inside", "model"},
			Patches: []Patch{
				{"	part.notify(b.end)\n", ""},
				{"		if why := p.Err(); why != nil {\n			b.end(why)\n			return false\n		}\n", "		_ = p\n"},
			},
		},
	}
}
