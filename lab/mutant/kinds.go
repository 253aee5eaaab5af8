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
			Name: "a broadcast wakes nobody", File: "cond.go", World: Live, Kind: live.Cond, Checks: []string{"signals"},
			Patches: []Patch{{"func (c *Cond) Broadcast(ctx context.Context) error {\n", "func (c *Cond) Broadcast(ctx context.Context) error {\n	if c != nil {\n		return nil\n	}\n"}},
		},
		{
			Name: "a Multi that fails keeps its first part", File: "multi.go", World: Live, Kind: live.Several, Checks: []string{"stuck", "leftovers", "deadlock"},
			Patches: []Patch{{"	await(m.c.releaseLeases(m.title(), b.parts...), callGrace) // the rest", "	await(m.c.releaseLeases(m.title(), b.parts[min(1, len(b.parts)):]...), callGrace) // the rest"}},
		},
	}
}
