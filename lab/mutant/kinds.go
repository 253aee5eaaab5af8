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
		{
			Name: "an adopted lease counts from the reply, live", File: "lease_detach.go", World: Live, Kind: live.Moved, Checks: []string{"ledger"},
			Patches: []Patch{{"h.entry.Window.Start(c.keep.At(sent), ttl,", "h.entry.Window.Start(c.keep.At(sent.Add(time.Since(sent))), ttl,"}},
		},
		{
			Name: "an adopted lease is not renewed", File: "lease_detach.go", World: Live, Kind: live.Moved, Checks: []string{"kept"},
			Patches: []Patch{{"	first := keepalive.Usual\n", "	first := keepalive.Never\n"}},
		},
		{
			Name: "a detached lease is released", File: "lease_detach.go", World: Live, Kind: live.Moved, Checks: []string{"overlap", "inside", "notified", "model", "kept", "end-seen"},
			Patches: []Patch{{"	h.reportDetach(l)\n", "	h.client().queueRelease(h.entry.TTL, h.releaseRequest())\n	h.reportDetach(l)\n"}},
		},
	}
}
