package virtual

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// maxLinger is the longest that WithLinger accepts.
const maxLinger = time.Second

// recalls reports whether the engine of a world recalls leases.
func (w World) recalls() bool { return w == Memory || w == Redis }

// mutex reports whether the step locks a Mutex.
func (s Step) mutex() bool { return s.Do == Round && (s.Lock == Counter || s.Lock == Stock) }

// linger gives some programs WithLinger. Callers of one process share a lease if they have the same
// TTL, so that is the same for all rounds of a name; and each process works several times in a row, since that is
// when a lease is kept.
func (d drawer) linger(p *Program, m profile) {
	if !p.World.recalls() || !slices.ContainsFunc(p.Steps, Step.mutex) || d.IntN(2) == 0 {
		return
	}
	if d.IntN(3) == 0 {
		m.faults = nil
		p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return !s.works() })
	} else if len(m.faults) > 0 && !slices.Contains(m.faults, Jump) && d.IntN(2) == 0 { // see withJumps
		m.faults = lingerFaults
	}
	names := map[string]Step{}
	for i := range p.Steps {
		s := &p.Steps[i]
		if !s.mutex() {
			continue
		}
		first, seen := names[s.Name]
		if !seen {
			first = *s
			first.Linger = min(drawn(d, d.upTo(10*time.Millisecond), d.upTo(maxLinger), maxLinger), s.TTL/3)
			names[s.Name] = first
		}
		if d.IntN(4) > 0 {
			s.Linger, s.TTL = first.Linger, first.TTL
			if s.Way != Try {
				s.Way = Plain
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	for range 1 + d.IntN(4) {
		p.Steps = slices.Insert(p.Steps, d.IntN(len(p.Steps)+1), d.burst(*p, m, names[drawn(d, sorted...)])...)
	}
}

// lingerFaults are the faults that must happen while a lease lingers.
var lingerFaults = []Action{Pause, Crash, Cut, Hang, Deaf, Mute, Slow, Twice, Down, Wipe, Break}

// burst draws rounds of one process, and what happens while the lease lingers.
func (d drawer) burst(p Program, m profile, s Step) (all []Step) {
	s.Process = d.IntN(p.Processes)
	for range drawn(d, 1, 2, 3, 5, 20) {
		s.Way, s.Wait = drawn(d, Plain, Plain, Plain, Plain, Try), time.Second+d.upTo(7*time.Second)
		s.Hold, s.Sleep = drawn(d, 0, 0, d.upTo(5*time.Millisecond)), drawn(d, 0, time.Millisecond, d.upTo(s.Linger+5*time.Millisecond))
		all = append(all, s)
	}
	all[len(all)-1].Sleep = s.Hold + drawn(d, time.Millisecond, d.upTo(s.Linger))
	next := Step{Process: s.Process, Sleep: drawn(d, 0, time.Millisecond, d.upTo(s.Linger))}
	switch {
	case d.IntN(4) == 0:
		next.Do = Restart
		all = append(all, next)
	case len(m.faults) > 0 && d.IntN(3) > 0:
		all = append(all, d.fault(p, m, next))
	}
	for range d.IntN(3) {
		s.Process = d.IntN(p.Processes)
		s.Hold, s.Sleep = drawn(d, 0, d.upTo(5*time.Millisecond), d.upTo(300*time.Millisecond)), drawn(d, 0, time.Millisecond, d.upTo(time.Second))
		s.Way = drawn(d, Plain, Plain, Try)
		all = append(all, s)
	}
	return all
}

// Lingered counts what came of WithLinger.
type Lingered struct {
	Kept    int // releases that kept the lease
	Taken   int // turns that began with a lease that was kept
	Recalls int // messages that reached a process
	Lost    int // messages that a fault lost
	Doubled int // messages that a fault doubled
	// Met counts the faults that began while a lease lingered.
	Met map[Action]int
}

func (l *Lingered) add(o Lingered) {
	l.Kept, l.Taken, l.Recalls = l.Kept+o.Kept, l.Taken+o.Taken, l.Recalls+o.Recalls
	l.Lost, l.Doubled = l.Lost+o.Lost, l.Doubled+o.Doubled
	if l.Met == nil {
		l.Met = map[Action]int{}
	}
	for a, n := range o.Met {
		l.Met[a] += n
	}
}

func (l Lingered) String() string {
	return fmt.Sprintf("leases kept %d times, %d turns of them, %d recalls, %d lost, %d doubled; faults while they lingered %v",
		l.Kept, l.Taken, l.Recalls, l.Lost, l.Doubled, l.Met)
}

// never lists what did not happen in a number of programs, of which it should.
func (l Lingered) never(programs int) (what []string) {
	if programs < manyPrograms {
		return nil
	}
	for name, n := range map[string]int{"kept lease": l.Kept, "turn of a kept lease": l.Taken, "recall": l.Recalls,
		"lost recall": l.Lost, "doubled recall": l.Doubled} {
		if n == 0 {
			what = append(what, name)
		}
	}
	for _, a := range append([]Action{Restart}, lingerFaults...) {
		if programs >= manyForFaults && l.Met[a] == 0 {
			what = append(what, string(a)+" while a lease lingers")
		}
	}
	slices.Sort(what)
	return what
}

// lingerLog collects the events of leases that are kept.
type lingerLog struct {
	mu    sync.Mutex
	count Lingered
	kept  map[localTurn]bool
	ends  []lingerTurn
}

// localTurn is one turn of a lease.
type localTurn struct {
	client, resource string
	token            uint64
}

type lingerTurn struct {
	localTurn
	at time.Duration
}

// lingerHook is a hook of one client.
type lingerHook struct {
	w      *simulation
	client string
}

// Release implements holdfast.ReleaseHook.
func (h lingerHook) Release(e holdfast.ReleaseEvent) {
	if e.HandOff == holdfast.HandOffProcess {
		h.w.turns.handedOff(localTurn{h.client, e.Resource, e.Token})
	}
	if e.HandOff == holdfast.HandOffLinger {
		l := &h.w.lingers
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count.Kept++
		l.kept[localTurn{h.client, e.Resource, e.Token}] = true
	}
}

// AcquireEnd implements holdfast.AcquireEndHook.
func (h lingerHook) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	if e.Source == holdfast.SourceProcess {
		l := &h.w.lingers
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, lingerTurn{localTurn{h.client, e.Resource, e.Token}, h.w.rec.Now()})
	}
}

// taken lists the turns that began with a lease that was kept: the turn before was kept.
func (l *lingerLog) taken() []lingerTurn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.ends), func(t lingerTurn) bool {
		return !l.kept[localTurn{t.client, t.resource, t.token - 1}]
	})
}

// counted returns the counts of a run.
func (l *lingerLog) counted() Lingered {
	taken := len(l.taken())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.Taken = taken
	return l.count
}

// recalled counts a recall.
func (l *lingerLog) recalled(which func(*Lingered) *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*which(&l.count)++
}

// met counts a fault if a lease of one of the processes lingers.
func (l *lingerLog) met(a Action, all ...*process) {
	if !slices.ContainsFunc(all, func(p *process) bool { return p.alive() && p.client.Stats().Lingering > 0 }) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count.Met == nil {
		l.count.Met = map[Action]int{}
	}
	l.count.Met[a]++
}

var _ engine.Recaller = (*link)(nil)

// Recalls implements engine.Recaller.
func (l *link) Recalls() bool {
	r, ok := l.n.e.(engine.Recaller)
	return ok && r.Recalls()
}

// recall sends a recall to the process; under Twice it arrives twice.
func (s *stream) recall(deliver func()) {
	log := &s.l.p.w.lingers
	if s.lost() {
		log.recalled(func(c *Lingered) *int { return &c.Lost })
		return
	}
	counted := func() {
		log.recalled(func(c *Lingered) *int { return &c.Recalls })
		deliver()
	}
	s.receive(counted)
	if s.l.has(Twice) {
		log.recalled(func(c *Lingered) *int { return &c.Doubled })
		s.receive(counted)
	}
}

// restart replaces a process by another one. The first makes no new rounds, and closes its client when the last one has
// ended, so while the lease of that lingers. What Close reports as released is not in the store.
func (w *simulation) restart(p *process, s Step) {
	synctest.Wait()
	if !p.alive() {
		return
	}
	w.changes.Lock()
	fresh, err := w.start(s.Process)
	if err == nil {
		w.procs[s.Process] = fresh
	}
	w.changes.Unlock()
	if err != nil {
		w.violated("errors", "", "restart of %s: %v", p.name, err)
		return
	}
	w.rounds.Go(func() {
		p.rounds.Wait()
		if p.gate() != nil {
			return
		}
		w.lingers.met(Restart, p)
		w.hit(Restart)
		began := w.rec.Now()
		err := p.client.Close()
		w.called(p, "", began, err)
		switch {
		case err == nil && p.alive():
			w.leftovers(map[string]bool{p.name: true})
		case err != nil:
			w.unreleased.Store(true)
		}
		p.kill()
	})
}

// lingerings are the checks of what GUARANTEES.md promises of leases that are kept: a waiter is delayed until the
// recall has arrived, at once without faults. If recalls and wake-ups are lost, it waits for the linger and a poll, or,
// while callers of the other process use the lease, for a third of its TTL.
func (w *simulation) lingerings(ops []history.Op) (found []check.Violation) {
	if !w.p.World.recalls() {
		return nil
	}
	switch {
	case w.only(Round, Restart):
		found = append(found, w.idle(ops, handedOff)...)
		found = append(found, w.passed(ops, func(time.Duration) time.Duration { return handedOff })...)
		found = append(found, w.refused(ops)...)
	case w.only(Round, Restart, Mute):
		found = append(found, w.idle(ops, maxLinger+engine.PollInterval+handedOff)...)
		found = append(found, w.passed(ops, func(ttl time.Duration) time.Duration { return ttl/3 + handedOff })...)
	}
	return found
}

// renewed returns the operations on resources whose leases are all renewed. A lease that is not renewed excludes others
// for a margin after its holder has lost it.
func (w *simulation) renewed(ops []history.Op) []history.Op {
	expires := map[string]bool{}
	for _, s := range w.p.Steps {
		expires[s.Name] = expires[s.Name] || s.Way == NoRenewal
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return expires[op.Resource] })
}

// idle finds waits for a resource that nobody uses.
func (w *simulation) idle(ops []history.Op, bound time.Duration) (found []check.Violation) {
	for _, v := range check.Deadlock(bound).Find(w.renewed(ops)) {
		v.Check = "idle"
		found = append(found, v)
	}
	return found
}

// passed finds turns of kept leases that began although a caller of another process had waited for longer.
func (w *simulation) passed(ops []history.Op, bound func(ttl time.Duration) time.Duration) (found []check.Violation) {
	ttls := map[string]time.Duration{}
	for _, s := range w.p.Steps {
		if s.Linger > 0 {
			ttls[s.Name] = s.TTL
		}
	}
	for _, t := range w.lingers.taken() {
		for _, op := range ops {
			waits := op.Kind == history.Acquire && op.Resource == t.resource && op.Client != t.client && op.Return > t.at &&
				(op.Outcome == history.OK || op.Note == check.Waited)
			if waits && t.at-op.Call > bound(ttls[t.resource]) {
				found = append(found, check.Violation{Check: "passed", Resource: t.resource, At: t.at,
					Text: fmt.Sprintf("%s took a lease that it had kept, %v after %s began to wait", t.client, t.at-op.Call, op.Client)})
			}
		}
	}
	return found
}

// refused finds tries that were refused although nobody used the resource or waited for it, from a while before until after the
// try.
func (w *simulation) refused(ops []history.Op) (found []check.Violation) {
	ops = w.renewed(ops)
	for _, try := range ops {
		if try.Kind != history.Acquire || try.Outcome != history.Failed || try.Note == check.Waited {
			continue
		}
		if !slices.ContainsFunc(w.p.Steps, func(s Step) bool { return s.Name == try.Resource && s.mutex() }) {
			continue
		}
		if !slices.ContainsFunc(ops, func(op history.Op) bool { return op.Holder != try.Holder && busy(op, ops, try) }) {
			found = append(found, check.Violation{Check: "refused", Resource: try.Resource, At: try.Call,
				Text: fmt.Sprintf("a try of %s was refused, at %v, although nobody used it or waited for it", try.Client, try.Return)})
		}
	}
	return found
}

// busy reports whether an acquire, or the lease that came of it, explains why a try at that time was refused.
func busy(op history.Op, ops []history.Op, try history.Op) bool {
	if op.Kind != history.Acquire || op.Resource != try.Resource || op.Call > try.Return {
		return false
	}
	end := op.Return
	for _, r := range ops {
		if op.Outcome == history.OK && r.Kind == history.Release && r.Holder == op.Holder {
			end = r.Return
		}
	}
	return end+time.Millisecond >= try.Call
}
