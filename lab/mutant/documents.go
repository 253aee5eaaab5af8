package mutant

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// documents are bugs of engine/cas.
func documents() []Mutant {
	const folder = "engine/cas/"
	exclusion := []string{"overlap", "inside", "notified", "model", "kept", "ended", "tokens"}
	return []Mutant{
		{
			Name: "the answer to a poll is of an old document", File: folder + "write.go", World: virtual.Documents,
			Checks:  append([]string{"starvation", "hand-off", "deadlock", "errors"}, exclusion...),
			Patches: []Patch{{"		e.apply(w, ops, fresh)\n", "		e.apply(w, ops, true)\n"}},
		},
		{
			Name: "a conflict counts as success", File: folder + "write.go", World: virtual.Documents, Checks: append([]string{"leftovers", "errors"}, exclusion...),
			Patches: []Patch{{"		case out.Swapped || bytes.Equal(out.Doc.Value, d.bytes):", "		case true || bytes.Equal(out.Doc.Value, d.bytes):"}},
		},
		{
			Name: "a renewed lease keeps its stamp", File: folder + "draft.go", World: virtual.Documents, Checks: exclusion,
			Patches: []Patch{{"h.Deadline-now, max(was.stamps[b]+1, uint64(now))\n", "h.Deadline-now, max(was.stamps[b], min(0, uint64(now)))\n"}},
		},
		{
			Name:  "an abandoned waiter is released although it holds",
			Rare:  true,
			Holds: "the lab seldom has it; TestAbandonedWaiterThatWasGranted in engine/cas finds it",
			File:  folder + "polls.go", World: virtual.Documents, Checks: exclusion,
			Patches: []Patch{{"			if !q.Waits(id) {", "			if false {"}},
		},
		{
			Name: "an abandoned waiter stays in the line", File: folder + "beats.go", World: virtual.TimedDocuments, Checks: []string{"leftovers", "deadlock", "hand-off"}, Limit: 2 * time.Minute,
			Patches: []Patch{{"	e.dismiss(client, latest)\n", "	_ = latest\n"}},
		},
		{
			Name:  "a pushed grant counts from its arrival on a store with a clock",
			Holds: "it takes a poll within a slow swap, and renewals that all fail after it; TestPushedGrantCountsFromThePoll in engine/cas finds it",
			File:  folder + "message.go", World: virtual.TimedDocuments, Checks: exclusion,
			Patches: []Patch{{"			w.TTL = max(0, translate.Duration(min(m.TTL, m.Deadline-shown)))\n", "			w.TTL = translate.Duration(m.TTL) + translate.Duration(0*shown)\n"}},
		},
		{
			Name:  "the uncertainty of the store's time is not added to a lease",
			Holds: "a second check makes up for it: if the time in the reply shows that the lease ends too early, the renewal is repeated",
			File:  folder + "write.go", World: virtual.TimedDocuments, Checks: exclusion,
			Patches: []Patch{{"pad: translate.Micros(late.Sub(early)) + 1, local: local}", "pad: 0 * translate.Micros(late.Sub(early)), local: local}"}},
		},
		{
			Name: "the store's time is taken for later than it is", File: folder + "clock_estimate.go", World: virtual.TimedDocuments, Checks: exclusion,
			Patches: []Patch{{"	return c.shown.Add(slow(now.Sub(c.got))), ", "	return c.shown.Add(2 * fast(now.Sub(c.got))), "}},
		},
		{
			Name: "the beats of waiters come too rarely", File: folder + "beats.go", World: virtual.Documents, Checks: []string{"starvation", "hand-off", "deadlock", "errors"},
			Patches: []Patch{{"time.Since(own.at) < beatInterval {", "time.Since(own.at) < 1000*beatInterval {"}},
		},
		{
			Name: "dead waiters are granted", File: folder + "check.go", World: virtual.TimedDocuments, Checks: []string{"deadlock", "hand-off", "leftovers"}, Limit: 4 * time.Minute,
			Patches: []Patch{{"		if !verified[i] {\n", "		if true {\n"}},
		},
		{
			Name: "a grant sends no wake-up", File: folder + "write.go", World: virtual.Documents, Checks: []string{"hand-off"},
			Patches: []Patch{{"		for _, w := range translate.Wakeups(op.answer) {\n			all = append(all, messageOf(prefix, w, now))\n		}\n", ""}},
		},
		{
			Name: "a document is forgotten although it has parties", File: folder + "document.go", World: virtual.Documents,
			Holds:   "the clocks of processes agree in the lab, so a document with a party is never old enough; engine/cas has a test with clocks that differ",
			Checks:  exclusion,
			Patches: []Patch{{" && len(d.state.Holders)+len(d.state.Waiters) == 0", ""}},
		},
		{
			Name: "a witness that is not there proves something without its note", File: folder + "witness.go", World: virtual.Documents, Checks: exclusion,
			Patches: []Patch{
				{"if l.noted && l.age < min(l.ttl, l.note.proves) && ", "if l.age < l.ttl && "},
				{"states[n] == WitnessVanished && ", "states[n] != WitnessStands && "},
				{"Add(-translate.Duration(d.notes[i].proves))", "Add(-translate.Duration(h.Deadline))"},
			},
		},
		{
			Name: "a renewed lease keeps its witness", File: folder + "draft.go", World: virtual.Documents, Checks: exclusion,
			Patches: []Patch{{"h.Deadline-now, max(was.stamps[b]+1, uint64(now))\n", "h.Deadline-now, max(was.stamps[b]+1, uint64(now))\n			is.notes[i] = was.notes[b]\n"}},
		},
		{
			Name: "processes that only try leave no witness", File: folder + "witness.go", World: virtual.Documents, Checks: []string{"deadlock"},
			Patches: []Patch{{"	if len(op.left) == 0 {\n", "	if len(op.left) >= 0 {\n"}},
		},
	}
}
