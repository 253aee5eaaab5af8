package live

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
	"github.com/holdfast-go/holdfast/lab/model"
)

// Result is the result of a run.
type Result struct {
	Kind       string            `json:"kind"` // kindLive
	Program    Program           `json:"program"`
	Violations []check.Violation `json:"violations,omitempty"`
	Hits       []string          `json:"hits,omitempty"`   // faults that happened, with the time
	Faults     []string          `json:"faults,omitempty"` // the same, as in the program
	Stalls     []Stall           `json:"stalls,omitempty"` // that were measured
	History    []history.Op      `json:"history,omitempty"`
	Took       time.Duration     `json:"took"`
	// Windows counts the trust windows that were compared with what the stores did, by package ledger.
	Windows int `json:"windows,omitempty"`
	// Recorded counts what was compared with the history that the clients recorded in the stores.
	Recorded Recorded `json:"recorded,omitzero"`
	// Commands are what each Redis executed, or the versions of the documents of another store, by package ledger, if there
	// are violations.
	Commands [][]string `json:"commands,omitempty"`
	// Lingered counts the leases that a client had kept with WithLinger and that a caller then took without a call, and
	// Recalls the messages by which a Redis recalled leases.
	Lingered int `json:"lingered,omitempty"`
	Recalls  int `json:"recalls,omitempty"`
	// Stopped counts the pauses of workers at points of their clients.
	Stopped int `json:"stopped,omitempty"`
	// Promotions counts the replicas that became masters, Carried the leases that were held over one of them, and LostOver
	// those of which the new master did not have the grant or the last renewal.
	Promotions int `json:"promotions,omitempty"`
	Carried    int `json:"carried,omitempty"`
	LostOver   int `json:"lost_over,omitempty"`
	// ByStall counts the lost leases and the errors that nothing but a stall of the machine explains.
	ByStall int `json:"by_stall,omitempty"`
	// Rolled counts the leases that were relied on when a single store was rolled back.
	Rolled Rolled `json:"rolled,omitzero"`
	// Calm reports whether there was no fault and no long stall, so that order and times
	// were judged too.
	Calm bool `json:"calm,omitempty"`
}

// Grants counts acquired leases and the runs of slots.
func (r Result) Grants() (n int) {
	for _, op := range r.History {
		if op.Kind == history.Acquire && op.Outcome == history.OK || op.Kind == history.Run {
			n++
		}
	}
	return n
}

// Terms counts how often an observer of an election has seen a leader.
func (r Result) Terms() (n int) {
	for _, op := range r.History {
		if op.Kind == history.Seen && op.Token > 0 {
			n++
		}
	}
	return n
}

// Waited counts the waits for latches and conditions that ended with these.
func (r Result) Waited() (n int) {
	for _, op := range r.History {
		if op.Kind == history.Wait && op.Outcome == history.OK {
			n++
		}
	}
	return n
}

// Checks returns the names of the checks with violations, each once.
func (r Result) Checks() (names []string) {
	for _, v := range r.Violations {
		if !slices.Contains(names, v.Check) {
			names = append(names, v.Check)
		}
	}
	return names
}

// result collects the history of a run that has ended and checks it. If the run was cut short, the records of its stores and of
// their roles may be, and are not judged; whole says that it was not.
func (r *run) result(began time.Time, whole bool) Result {
	res := Result{Kind: kindLive, Program: r.p, Took: time.Since(began)}
	ops := r.rec.Ops()
	for _, c := range r.workers {
		ops = append(ops, c.deathOps(ops)...)
	}
	r.identify(ops)
	wiped := false
	for i, s := range r.stores {
		for _, w := range s.wipes {
			wiped = true
			if len(r.stores) == 1 {
				ops = append(ops, forgotten(ops, w)...)
			}
		}
		for _, b := range s.rolls {
			if len(r.stores) > 1 || r.p.Wrong == JudgedAsKept {
				continue
			}
			lost, n := setBack(ops, r.p.TTL, b, r.ledgers[i].Named)
			ops = append(ops, lost...)
			res.Rolled.add(n)
		}
	}
	forced := r.ops.forcedReleases(ops)
	over := r.overFailovers(ops)
	res.Promotions, res.Carried, res.LostOver = len(r.roles.promotions()), over.carried, len(over.lost)
	wiped = wiped || res.Promotions > 0 && !over.safe
	ops = append(ops, over.excused()...)
	ops = append(ops, r.uncertain(forced)...)
	slices.SortStableFunc(ops, func(a, b history.Op) int { return int(a.Return - b.Return) })
	for _, h := range r.inj.Hits() {
		res.Hits = append(res.Hits, h.At.Round(time.Microsecond).String()+": "+h.Fault.String())
		res.Faults = append(res.Faults, h.Fault.String())
		if atPoint(h.Fault) {
			res.Stopped++
		}
	}
	res.Stalls, res.History = r.stalls(), ops
	res.Recorded = r.recorded
	res.Calm = r.calm() && r.steady()
	res.Violations = slices.Concat(check.Run(ops, r.checks(wiped)...), r.calmly(ops), r.unexplained(), r.violations)
	res.ByStall = r.byStall
	switch {
	case whole:
		res.Violations = append(res.Violations, over.violations()...)
	case r.roles != nil && !over.safe: // what the failovers have lost is not known
		res.Violations = slices.DeleteFunc(res.Violations, func(v check.Violation) bool {
			return slices.Contains([]string{"overlap", "inside", "ended", "model", "terms"}, v.Check)
		})
	}
	if len(r.ledgers) > 0 {
		var found []check.Violation
		switch {
		case !whole:
		case r.roles != nil:
			res.Windows, found = r.judgeReigns(ops, over)
		default:
			res.Windows, found = ledger.Judge(ops, r.p.TTL, r.ledgers)
		}
		res.Violations = append(res.Violations, found...)
		if onRedis(r.p.Subject) {
			res.Lingered = lingered(ops)
		}
		for _, l := range r.ledgers {
			res.Recalls += l.Recalls()
			if len(res.Violations) > 0 {
				res.Commands = append(res.Commands, l.Commands())
			}
		}
	}
	return res
}

// identify adds the IDs of leases that their clients do not state, as those of all parts of a Multi but the first, on one Redis
// or a master with replicas.
func (r *run) identify(ops []history.Op) {
	if r.p.Nodes > 1 {
		return
	}
	for i := range ops {
		op := &ops[i]
		if op.Kind != history.Acquire || op.Outcome != history.OK {
			continue
		}
		for _, l := range r.ledgers {
			if op.Store == "" {
				op.Store = l.Granted(op.Resource, op.Token)
			}
		}
	}
}

// kindLive is the Kind of this package's replay files.
const kindLive = "live"

// checks returns the checks of what is promised under the faults.
func (r *run) checks(wiped bool) []check.Check {
	all := []check.Check{
		check.Overlap(), check.Inside(), check.Notified(0), check.Stale(), check.Updates(), check.Sold(), check.Whole(),
		{Name: "ended", Find: func(ops []history.Op) []check.Violation { return check.Ended(r.p.TTL).Find(inTime(ops)) }},
	}
	if r.p.holdfast() {
		may := r.observers(wiped)
		terms := func(ops []history.Op) []check.Violation { return check.Terms(may).Find(r.seenSince(ops)) }
		all = append(all, check.Tokens(), model.Lock(r.p.TTL), check.Check{Name: "terms", Find: terms})
		if !slices.Contains(r.p.Ways, NoRenewal) {
			all = append(all, check.Check{Name: "kept", Find: r.kept})
		}
	} else {
		all = append(all, model.Exclusion(r.p.TTL))
	}
	if r.p.holdfast() {
		all = append(all, check.Latches(r.wholeUntil()))
	}
	if !wiped { // a wipe deletes marks
		all = append(all, check.Check{Name: "slots", Find: func(ops []history.Op) []check.Violation { return check.Slots().Find(r.marked(ops)) }})
	}
	return all
}

// observers returns what those of elections may see. A store that was rolled back has requests of its copy again, and of one that
// was emptied a candidate that had no reply is elected a second time.
// Of documents an observer estimates the time otherwise than a holder that is held up and claims or renews its lease late.
func (r *run) observers(wiped bool) check.Observers {
	lost := r.p.Nodes == 1 && (wiped || r.rolledBack(0, endless))
	return check.Observers{Again: !r.p.store().Scripts, Ballots: r.p.Nodes > 1, Ghosts: lost || len(r.roles.promotions()) > 0}
}

// wholeUntil returns the instant at which a store may first have lost data. A latch lives longer than a node of a quorum is away.
func (r *run) wholeUntil() time.Duration {
	until := endless
	for _, s := range r.stores {
		for _, w := range s.wipes {
			until = min(until, w.at)
		}
		for _, b := range s.rolls {
			until = min(until, b.at)
		}
	}
	if r.mayLose() {
		for _, p := range r.roles.promotions() {
			until = min(until, p.from)
		}
	}
	return until
}

// wiper is the client, in the history, of the releases that represent a loss of data.
const wiper = "wipe"

// forgotten returns a release by wiper for each lease that a store lost with its data: for
// those that had not been released and whose token is at most w.below, the store's clock of
// that moment in microseconds. Later tokens are above.
func forgotten(ops []history.Op, w wipe) (out []history.Op) {
	over := map[string]bool{}
	for _, op := range ops {
		if op.Kind == history.Release && op.Outcome == history.OK && op.Return < w.at {
			over[op.Holder] = true
		}
	}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK && op.Token <= w.below && !over[op.Holder] {
			op.Client, op.Kind, op.Call, op.Return, op.Until, op.Note = wiper, history.Release, w.at, w.at, 0, "data lost"
			out = append(out, op)
		}
	}
	return out
}

// inTime removes the leases that were granted before a wipe and whose wake-up arrived after
// it. Their next renewal ends them, and their tokens are stale.
func inTime(ops []history.Op) []history.Op {
	gone := map[string]time.Duration{}
	for _, op := range ops {
		if op.Kind == history.Release && op.Client == wiper {
			gone[op.Holder] = op.Call
		}
	}
	late := map[string]bool{}
	for _, op := range ops {
		if at, wiped := gone[op.Holder]; wiped && op.Kind == history.Acquire && op.Return > at {
			late[op.Holder] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return late[op.Holder] })
}
