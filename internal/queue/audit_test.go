package queue_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// audit sends operations to a queue and checks every answer against the rules
// of the package comment. It keeps only what the answers so far contained,
// plainly and slowly; a broken rule is a panic with a violation.
type audit struct {
	queue  *queue.Queue
	params queue.Params
	now    queue.Time

	kind     string
	capacity int
	holders  map[string]lease
	line     []wait // in order of arrival
	ended    map[string]fate
	tokens   map[string]uint64 // the last of each ID
	birth    uint64            // the first since the state was new
	highest  uint64            // ever given or reserved
	marked   queue.Time        // until when it is done
	dropped  []string          // by a mark, in this operation
}

type lease struct {
	weight   int
	token    uint64
	deadline queue.Time
	breaking bool
}

type wait struct {
	id      string
	weight  int
	ttl     queue.Time
	reserve uint64
	mark    queue.Time
	seen    queue.Time
}

type fate struct {
	cause  queue.Cause
	until  queue.Time
	reason string
}

type violation string

func (a *audit) must(ok bool, format string, args ...any) {
	if !ok {
		panic(violation(fmt.Sprintf("at %d: ", a.now) + fmt.Sprintf(format, args...)))
	}
}

func newAudit(p queue.Params, now queue.Time) *audit {
	a := &audit{params: p, now: now}
	a.lose()
	return a
}

// lose drops the state, as a store does that forgets.
func (a *audit) lose() {
	a.queue, a.birth = queue.New(a.params, a.now), 0
	a.kind, a.capacity, a.marked = "", 0, 0
	a.holders, a.line = map[string]lease{}, nil
	a.ended, a.tokens = map[string]fate{}, map[string]uint64{}
}

// forget drops the state if the queue says that nothing is lost by it.
func (a *audit) forget() bool {
	if !a.queue.Forgettable(a.now) {
		return false
	}
	for id, h := range a.holders {
		a.must(h.deadline+a.params.Retention <= a.now, "forgettable while %s holds or has to be refused", id)
	}
	for _, w := range a.line {
		a.must(!a.live(w), "forgettable with live waiter %s", w.id)
	}
	for id := range a.ended {
		_, ok := a.tombstone(id)
		a.must(!ok, "forgettable while %s has to be refused", id)
	}
	a.must(a.marked+a.params.Retention <= a.now, "forgettable, but marked until %d", a.marked)
	a.must(uint64(a.now) > a.highest, "forgettable at %d with token %d given", a.now, a.highest)
	a.lose()
	return true
}

func (a *audit) live(w wait) bool { return w.seen+a.params.WaiterLife > a.now }

func (a *audit) tombstone(id string) (queue.Cause, bool) {
	f, ok := a.ended[id]
	return f.cause, ok && f.until > a.now
}

func (a *audit) end(id string, c queue.Cause) {
	a.ended[id] = fate{cause: c, until: a.now + a.params.Retention}
}

func (a *audit) used() (used int) {
	for _, h := range a.holders {
		used += h.weight
	}
	return used
}

func (a *audit) place(id string) int {
	return slices.IndexFunc(a.line, func(w wait) bool { return w.id == id })
}

// mark: a mark never becomes shorter, and those who wait are sent away.
func (a *audit) mark(span queue.Time) {
	if span == 0 {
		return
	}
	a.marked = max(a.marked, a.now+span)
	for _, w := range a.line {
		a.dropped = append(a.dropped, w.id)
	}
	a.line = nil
}

// reap: a lease ends at its deadline. It begins every operation.
func (a *audit) reap() {
	a.dropped = nil
	for id, h := range a.holders {
		if h.deadline <= a.now {
			delete(a.holders, id)
			if !h.breaking {
				a.end(id, queue.Expired)
			}
		}
	}
}

// dropStale: if the front has not polled for WaiterLife while there is room, all such
// waiters go.
func (a *audit) dropStale() {
	if len(a.line) > 0 && a.used() < a.capacity && !a.live(a.line[0]) {
		a.line = slices.DeleteFunc(a.line, func(w wait) bool { return !a.live(w) })
	}
}

func (a *audit) remove(id string) bool {
	_, held := a.holders[id]
	delete(a.holders, id)
	i := a.place(id)
	if i >= 0 {
		a.line = slices.Delete(a.line, i, i+1)
	}
	return held || i >= 0
}

// granted checks the grants of one operation, in token order, and notes them.
// The caller's own, if it stood in the line, is among them.
func (a *audit) granted(pushed []queue.Grant, caller *queue.Grant) {
	all := slices.Clone(pushed)
	if caller != nil {
		all = append(all, *caller)
		slices.SortFunc(all, func(g, h queue.Grant) int { return cmp.Compare(g.Token, h.Token) })
	}
	for _, g := range all {
		a.dropStale()
		a.must(len(a.line) > 0 && a.line[0].id == g.ID, "%s is granted, but the line is %v", g.ID, a.line)
		w := a.line[0]
		a.line = a.line[1:]
		ttl := w.ttl
		if caller == nil || caller.ID != g.ID {
			ttl = min(ttl, a.params.ClaimWindow)
		}
		a.must(g.TTL == ttl, "%s is granted for %d, want %d", g.ID, g.TTL, ttl)
		a.hold(g, w.weight, w.reserve)
		a.mark(w.mark)
	}
	a.dropStale()
}

// hold checks and notes one grant.
func (a *audit) hold(g queue.Grant, weight int, reserve uint64) {
	a.must(g.Token > a.highest, "%s has token %d, but %d was given before", g.ID, g.Token, a.highest)
	_, over := a.tombstone(g.ID)
	a.must(!over, "%s is granted, but has ended", g.ID)
	_, held := a.holders[g.ID]
	a.must(!held, "%s is granted, but holds already", g.ID)
	a.holders[g.ID] = lease{weight, g.Token, a.now + g.TTL, false}
	a.highest = g.Token + reserve
	a.tokens[g.ID] = g.Token
	if a.birth == 0 {
		a.birth = g.Token
	}
}

// settled checks what holds after every operation.
func (a *audit) settled(got queue.Answer) {
	a.must(slices.Equal(got.Dropped, a.dropped), "%v are sent away, want %v", got.Dropped, a.dropped)
	a.must(len(a.dropped) == 0 || got.Left == a.marked-a.now, "%v are sent away for %d, but it is marked until %d", a.dropped, got.Left, a.marked)
	a.must(a.marked <= a.now || len(a.line) == 0, "%v wait, though it is marked until %d", a.line, a.marked)
	used := a.used()
	a.must(used <= a.capacity, "%d of %d are held", used, a.capacity)
	if len(a.line) > 0 {
		front := a.line[0]
		a.must(used+front.weight > a.capacity, "%s waits at the front for %d, but %d of %d are free",
			front.id, front.weight, a.capacity-used, a.capacity)
	}
	s := a.queue.Snapshot(a.now)
	a.must(len(s.Holders) == len(a.holders), "snapshot has holders %v, want %v", s.Holders, a.holders)
	last := uint64(0)
	for _, h := range s.Holders {
		want, ok := a.holders[h.ID]
		a.must(ok && want == lease{h.Weight, h.Token, h.Deadline, h.Breaking}, "snapshot has holder %v, want %v", h, want)
		a.must(h.Token > last, "snapshot has holders %v, not by token", s.Holders)
		last = h.Token
	}
	a.shown("waiters", s.Waiters, slices.DeleteFunc(slices.Clone(a.line), func(w wait) bool { return !a.live(w) }))
	a.shown("dead waiters", s.Dead, slices.DeleteFunc(slices.Clone(a.line), a.live))
	marked := a.marked
	if marked <= a.now {
		marked = 0
	}
	a.must(s.Marked == marked, "snapshot is marked until %d, want %d", s.Marked, marked)
	if a.birth != 0 {
		a.must(s.Last == a.highest, "snapshot has last token %d, want %d", s.Last, a.highest)
	}
}

// shown checks a list of waiters in a snapshot.
func (a *audit) shown(what string, got []queue.Waiter, want []wait) {
	same := func(g queue.Waiter, w wait) bool { return g.ID == w.id && g.Weight == w.weight }
	a.must(slices.EqualFunc(got, want, same), "snapshot has %s %v, want %v", what, got, want)
}

// cause is why an ID holds nothing, as far as the rules let a queue know.
func (a *audit) cause(id string, token uint64) queue.Cause {
	if c, ok := a.tombstone(id); ok {
		if used := a.used(); c == queue.Expired && used > 0 && used >= a.capacity {
			return queue.Taken
		}
		return c
	}
	if a.birth == 0 || token < a.birth || token > a.highest {
		return queue.Deleted
	}
	return queue.Released
}
