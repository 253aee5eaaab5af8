package programme

import (
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/stores"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// Full is the whole programme, without mutants: set Mutants for these. It takes
// about an hour on two CPUs.
func Full(catalog subject.Catalog) Plan {
	p := Plan{Catalog: catalog, Runs: 100, Seed: 1, Virtual: []Virtual{
		{World: virtual.Memory, Count: 100_000}, {World: virtual.Quorum, Count: 10_000}, {World: virtual.Redis, Count: 2_000},
		{World: virtual.Documents, Count: 10_000}, {World: virtual.TimedDocuments, Count: 10_000},
	}}
	for _, id := range liveSubjects() {
		p.Live = append(p.Live, Live{Subject: id, Count: 600})
	}
	for _, s := range stores.Others() {
		count := 320 // some show nothing
		if s.Members > 1 {
			count = 100
		}
		p.Live = append(p.Live, Live{Subject: s.Subject(), Count: count})
	}
	for _, s := range catalog {
		if peer(s.ID) {
			p.Live = append(p.Live, Live{Subject: s.ID, Count: 100})
		}
	}
	return p
}

// Brief is as much of the programme as fits in about d: each scenario once, and
// random faults for the rest of the time. With subjects it plays these alone; what
// is no Holdfast and no other library has no random part, for its holes are known.
// Stores other than Redis, whose servers may not be installed, are played if they are subjects.
// Stores of somebody else are given to Plan.On.
func Brief(catalog subject.Catalog, d time.Duration, subjects ...string) Plan {
	p := Plan{Catalog: catalog, Runs: 1, Seed: 1, Subjects: subjects}
	var random []string
	for _, id := range liveSubjects() {
		if p.wants(id) {
			random = append(random, id)
		}
	}
	for _, s := range catalog {
		if slices.Contains(subjects, s.ID) && (peer(s.ID) || slices.Contains(storeSubjects(), s.ID)) {
			random = append(random, s.ID)
		}
	}
	worlds := p.worlds()
	for _, id := range random {
		share := max(leastLive, d/2/time.Duration(len(random)))
		p.Live = append(p.Live, Live{Subject: id, Count: math.MaxInt32, For: share})
	}
	for _, w := range worlds {
		p.Virtual = append(p.Virtual, Virtual{World: w, Count: math.MaxInt32, For: max(leastVirtual, d/5/time.Duration(len(worlds)))})
	}
	return p
}

// What a random part takes at least: in less it may not end a single run.
const (
	leastLive    = 5 * time.Second
	leastVirtual = time.Second
)

// worlds are those of virtual time that a plan's subjects live in.
func (p Plan) worlds() (out []virtual.World) {
	for _, w := range []virtual.World{virtual.Memory, virtual.Quorum, virtual.Redis, virtual.Documents, virtual.TimedDocuments} {
		if p.wants(subjectOf(w)) {
			out = append(out, w)
		}
	}
	return out
}

// liveSubjects are Holdfast's on Redis.
func liveSubjects() []string { return []string{"holdfast", "holdfast-quorum"} }

// storeSubjects are Holdfast's on the other stores.
func storeSubjects() (ids []string) {
	for _, s := range stores.Others() {
		ids = append(ids, s.Subject())
	}
	return ids
}
