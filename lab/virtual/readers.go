package virtual

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// readers makes readers of one process overlap in some programs: those of a name have the same TTL, and several come
// at about the same time, with a writer among them.
func (d drawer) readers(p *Program) {
	if !slices.ContainsFunc(p.Steps, Step.shares) || d.IntN(4) == 0 {
		return
	}
	names := map[string]Step{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !s.shares() {
			continue
		}
		if first, seen := names[s.Name]; seen {
			s.TTL = first.TTL
		} else {
			names[s.Name] = *s
		}
	}
	for range 1 + d.IntN(3) {
		at := d.IntN(len(p.Steps))
		i := slices.IndexFunc(p.Steps, Step.shares)
		if k := slices.IndexFunc(p.Steps[at:], Step.shares); k >= 0 {
			i = at + k
		}
		s := p.Steps[i]
		var crowd []Step
		for range drawn(d, 2, 3, 5, 20) {
			s.Hold, s.Sleep = drawn(d, 0, d.upTo(5*time.Millisecond), d.upTo(300*time.Millisecond)), drawn(d, 0, 0, time.Millisecond, d.upTo(50*time.Millisecond))
			s.Wait = drawn(d, d.upTo(50*time.Millisecond), d.upTo(8*time.Second), 8*time.Second)
			one := s
			switch d.IntN(8) {
			case 0:
				one.Process = d.IntN(p.Processes)
			case 1, 2:
				one.Process, one.Weight = d.IntN(p.Processes), 2+d.IntN(2)
			}
			crowd = append(crowd, one)
		}
		p.Steps = slices.Insert(p.Steps, at, crowd...)
	}
}

// longestShare is how long newcomers may join a lease, and briefly how long they may where a writer may wait.
const longestShare, briefly = time.Second, time.Millisecond

// shares returns the acquires of leases that readers may share, by lease, in the order of their return.
func shares(ops []history.Op) map[string][]history.Op {
	all := map[string][]history.Op{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK && op.Shared != "" {
			all[op.Shared] = append(all[op.Shared], op)
		}
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b history.Op) int { return cmp.Compare(a.Return, b.Return) })
	}
	return all
}

// sharings are the checks of what GUARANTEES.md promises of readers that share a lease: newcomers join for a second at most,
// where the engine does not recall for a millisecond, and not if a writer has waited since before. If recalls are
// lost, a writer is passed for a second.
func (w *simulation) sharings(ops []history.Op) (found []check.Violation) {
	most := longestShare
	if !w.p.World.recalls() {
		most = briefly
	}
	bound := time.Duration(-1)
	switch {
	case w.only(Round, Restart):
		bound = handedOff
	case w.only(Round, Restart, Mute):
		bound = longestShare + handedOff
	}
	for id, of := range shares(ops) {
		granted := of[0].Return
		for _, op := range of {
			if op.Call <= granted+briefly {
				continue
			}
			if op.Call > granted+most {
				found = append(found, check.Violation{Check: "joined", Resource: op.Resource, At: op.Call,
					Text: fmt.Sprintf("%s joined the lease %s %v after it was granted", op.Client, id, op.Call-granted)})
			}
			for _, wait := range ops {
				if bound >= 0 && waits(wait, op) && op.Call-wait.Call > bound {
					found = append(found, check.Violation{Check: "passed", Resource: op.Resource, At: op.Call,
						Text: fmt.Sprintf("%s joined the lease %s, %v after the writer %s began to wait", op.Client, id, op.Call-wait.Call, wait.Client)})
				}
			}
		}
	}
	return found
}

// waits reports whether an operation is a writer that waits while a reader enters.
func waits(op, reader history.Op) bool {
	return op.Kind == history.Acquire && op.Resource == reader.Resource && op.Weight == op.Capacity && op.Return > reader.Return &&
		(op.Outcome == history.OK || op.Note == check.Waited)
}
