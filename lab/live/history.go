package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// recordsHistory draws whether the clients of a program record a history. It draws from numbers of its own. PostgreSQL
// does not wait for the disk when it commits events, so a server that is killed loses the latest.
func recordsHistory(p Program) bool {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x686973746f7279))}
	return p.holdfast() && p.Subject != "holdfast-postgres" && d.IntN(2) == 0
}

// killLate adds, to half of the programs that record a history under faults, the death of a worker that has had time to
// record something. It draws from numbers of its own.
func killLate(p *Program) {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x6b696c6c))}
	if !p.History || len(p.Faults) == 0 || d.IntN(2) > 0 {
		return
	}
	others, err := p.schedule()
	if err != nil {
		return // the run reports it
	}
	f := fault.Fault{Kind: fault.Kill, Target: fmt.Sprintf("w%d", 2+d.IntN(p.Workers-1)), At: fault.After(d.between(p.Length/2, p.Length*9/10))}
	if !clash(others, fault.Schedule{f}) {
		p.Faults = append(p.Faults, f.String())
	}
}

// Recorded counts what was compared with the history that the clients recorded in the stores.
type Recorded struct {
	Turns  int `json:"turns,omitempty"`  // of leases, by their ends
	Grants int `json:"grants,omitempty"` // that had to be there besides the end
	Waits  int `json:"waits,omitempty"`  // that ended without a lease
	Breaks int `json:"breaks,omitempty"`
	Killed int `json:"killed,omitempty"` // clients that were killed and of which something had to be there
	Lines  int `json:"lines,omitempty"`  // that holdfast log --json printed
}

func (n *Recorded) add(more Recorded) {
	n.Turns, n.Grants, n.Waits = n.Turns+more.Turns, n.Grants+more.Grants, n.Waits+more.Waits
	n.Breaks, n.Killed, n.Lines = n.Breaks+more.Breaks, n.Killed+more.Killed, n.Lines+more.Lines
}

// hollow returns of what nothing was compared in so many runs. logged is whether they compare the lines of holdfast log.
func (n Recorded) hollow(runs int, logged bool) (why []string) {
	if runs >= manyRuns && n.Turns == 0 {
		why = append(why, "no turn was compared with the history in the stores")
	}
	if logged && runs >= manyRuns && n.Lines == 0 {
		why = append(why, "no line of holdfast log was compared with the history in the stores")
	}
	for _, k := range []struct {
		what            string
		compared, after int
	}{{"wait without a lease", n.Waits, manyRuns}, {"killed client", n.Killed, manyRecorded}, {"break", n.Breaks, manyRecorded}, {"grant", n.Grants, manyGrants}} {
		if runs >= k.after && k.compared == 0 {
			why = append(why, fmt.Sprintf("no %s was compared with the history in the stores", k.what))
		}
	}
	return why
}

// compareHistory reads what the clients recorded in the stores, as holdfast log does, and compares it with the history
// of the lab. Nothing is in it that the lab did not see. All that the lab saw is in it, except what was recorded before a
// store lost its data, and the latest of a client that was killed.
func (r *run) compareHistory(ctx context.Context) error {
	if !r.p.History {
		return nil
	}
	events, err := readHistory(ctx, r.urls(), r.prefix)
	if err != nil {
		return err
	}
	if err := r.compareLog(ctx, events); err != nil {
		return err
	}
	var wiped, copied time.Duration
	for _, s := range r.stores {
		for _, w := range s.wipes {
			wiped = max(wiped, w.at)
		}
		for _, b := range s.rolls {
			wiped, copied = max(wiped, b.at), b.from
		}
		if len(s.wipes) > 0 || len(s.rolls) > 1 {
			copied = 0
		}
	}
	for _, p := range r.roles.promotions() {
		wiped = max(wiped, p.at, p.known)
	}
	written, ops := writtenBy(events), r.rec.Ops()
	for name := range written {
		if name != operatorName && !slices.ContainsFunc(r.workers, func(c *workerProcess) bool { return c.name == name }) {
			r.violated("history", "", "the history in the stores has events of %q, which is no client", name)
		}
	}
	for _, c := range r.workers {
		j := &historyJudge{
			seen: observedOf(ops, c.name, c.deadSince()), written: written[c.name], wiped: wiped, copied: copied, hands: r.p.Hands,
			ready: func(from, until time.Duration) bool { return r.recordedBy(c.name, from, until) },
			late: func(from, to time.Duration) time.Duration {
				return handedOff + lateness*longestStall(r.stallsOf(c.name, from, to))
			},
			broke: r.ops.broke,
			found: func(resource, format string, args ...any) {
				r.violated("history", resource, "%s: %s", c.name, fmt.Sprintf(format, args...))
			},
			compared: func(name string) bool {
				return slices.ContainsFunc(r.p.Resources, func(x Resource) bool { return x.Name == name && x.locked() && x.Kind != Cond })
			},
		}
		r.recorded.add(j.judge())
	}
	r.recorded.Breaks += r.compareBreaks(written[operatorName], wiped)
	return nil
}

// recorderGather is historyGather of the library: an event waits so long for others, before the request that writes it.
const recorderGather = 200 * time.Millisecond

// recordedBy reports whether an event of a client of one instant must be in the store at another one, because nothing hit
// the client or a store: the request that is under way then has ended, and one after recorderGather too. The two take no
// longer than a hand-off.
func (r *run) recordedBy(client string, from, until time.Duration) bool {
	if until-from < recorderGather+handedOff+lateness*longestStall(r.stallsOf(client, from, until)) {
		return false
	}
	return !slices.ContainsFunc(r.incidents(), func(i incident) bool {
		own := i.kind == fault.Kill && i.client == client
		return !own && (i.client == "" || i.client == client) && i.from <= until && i.to >= from
	})
}

// stallsOf returns the stalls of a client, or of a store, that a time between two instants has a part of.
func (r *run) stallsOf(client string, from, to time.Duration) []Stall {
	return slices.DeleteFunc(between(r.stalls(), from, to), func(s Stall) bool { return s.Client != "" && s.Client != client })
}

// compareBreaks compares what the operator recorded with what it did, and returns the number of its breaks. A break
// without an answer is not recorded.
func (r *run) compareBreaks(got written, wiped time.Duration) (n int) {
	type kind struct{ resource, cause string }
	most, least := map[kind]int{}, map[kind]int{}
	for _, b := range r.ops.ended {
		k := kind{b.resource, "break"}
		if b.force {
			k.cause = "break by force"
		}
		if b.done == 0 {
			continue
		}
		n++
		most[k]++
		if b.done > wiped {
			least[k]++
		}
	}
	all := map[kind]int{}
	for _, e := range got.breaks {
		all[kind{e.Resource, e.Cause}]++
		most[kind{e.Resource, e.Cause}] += 0
	}
	for k, m := range most {
		if all[k] < least[k] || all[k] > m {
			r.violated("history", k.resource, "the history in the stores has %d times %q by the operator, who did it %d times", all[k], k.cause, m)
		}
	}
	return n
}
