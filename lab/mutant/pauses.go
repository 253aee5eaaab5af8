package mutant

import "github.com/holdfast-go/holdfast/lab/virtual"

// pauses are bugs that show when a process is paused between two statements of its client.
func pauses() []Mutant {
	return []Mutant{
		{
			Name: "Lock does not look at the clock before it returns", File: "grant_store.go", World: virtual.Memory, Paused: true, Checks: []string{"notified"},
			Patches: []Patch{{"	if !h.open() {\n", "	if false {\n"}},
		},
		{
			Name: "Lock returns a lease that ended while it looked at the clock", File: "grant_store.go", World: virtual.Memory, Paused: true,
			Checks:  []string{"overlap", "inside", "notified", "model", "end-seen", "leftovers", "bubble"},
			Patches: []Patch{{"	if h.state != grantPassing {\n", "	if false {\n"}},
		},
		{
			Name: "Err does not look at the clock, in virtual time", File: "lease.go", World: virtual.Memory, Paused: true, Checks: []string{"notified"},
			Patches: []Patch{{"	if l.grant.open() {\n		return nil\n	}\n", "	if true || l.grant.open() {\n		return nil\n	}\n"}},
		},
	}
}

// controls have no bug, and programs that pause processes at points. Whatever is found in one is a bug of Holdfast or of
// the lab.
func controls() (all []Mutant) {
	control := func(name string, world virtual.World, store string) {
		all = append(all, Mutant{Name: "control: pauses at points, " + name, Holds: "there is no bug in it", World: world, Store: store, Paused: true})
	}
	for _, world := range []virtual.World{virtual.Memory, virtual.Quorum, virtual.Redis, virtual.Documents, virtual.TimedDocuments} {
		control(string(world), world, "")
	}
	control("live", Live, "")
	control("live quorum", Live, "quorum")
	return all
}
