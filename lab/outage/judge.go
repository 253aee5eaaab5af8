package outage

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// settles bounds how long after an outage a client may still fall back: until a call has been answered.
	settles = 1500 * time.Millisecond
	// inFlight is how long after its grant a Lock may return on a busy machine.
	inFlight = 100 * time.Millisecond
	// returns bounds how long after an outage each process has a lease of the store again.
	returns = 3 * time.Second
)

// down is an outage: the store answers nothing until it is started or resumed, and again at its end at the latest.
type down struct{ from, started, to time.Time }

// Result is what came of a run.
type Result struct {
	Outages int
	Turns   int
	Local   int      // of them without the store
	Shared  int      // pairs of turns at the same time of which one was without the store
	Broken  []string // promises
}

// judge compares the turns of all processes with what a fallback promises. Local turns are only for outages, exclude the
// callers of their process with LocalOnly, and have no token; the turns that the store has granted exclude each other
// everywhere, in the order of their tokens, and end with their TTL.
func judge(turns []turn, outages []down, processes int, fallback holdfast.Fallback, stalled func(from, to time.Time) time.Duration) Result {
	turns = slices.SortedFunc(slices.Values(turns), func(a, b turn) int { return int(a.Enter - b.Enter) })
	r := Result{Outages: len(outages), Turns: len(turns)}
	broken := func(format string, args ...any) { r.Broken = append(r.Broken, fmt.Sprintf(format, args...)) }
	last := uint64(0)
	for i, t := range turns {
		enter := time.Unix(0, t.Enter)
		during := slices.ContainsFunc(outages, func(d down) bool {
			return time.Unix(0, t.Call).Before(d.to.Add(settles)) && enter.After(d.from)
		})
		switch {
		case t.Local && fallback == holdfast.FailClosed:
			broken("a turn without the store although the lock fails closed: %+v", t)
		case t.Local && !during:
			broken("a turn without the store although the store is up: %+v", t)
		case t.Local && t.Token != 0, !t.Local && t.Token == 0:
			broken("the token: %+v", t)
		}
		if t.Local {
			r.Local++
		} else {
			if t.Token <= last {
				broken("token %d after %d: %+v", t.Token, last, t)
			}
			last = t.Token
			for _, d := range outages {
				if late := enter.Sub(d.from); late > ttl+inFlight+stalled(d.from, enter) && enter.Before(d.started) {
					broken("a turn of the store %v after it went down: %+v", late, t)
				}
			}
		}
		for _, next := range turns[i+1:] {
			if next.Enter >= t.Leave {
				break
			}
			local := t.Local || next.Local
			if local {
				r.Shared++
			}
			if !local || fallback == holdfast.LocalOnly && t.Process == next.Process {
				broken("two at once: %+v and %+v", t, next)
			}
		}
	}
	for _, d := range outages {
		for p := range processes {
			goesOn := func(from, to time.Time, local bool) bool {
				to = to.Add(stalled(from, to))
				return slices.ContainsFunc(turns, func(t turn) bool {
					at := time.Unix(0, t.Enter)
					return t.Process == p && t.Local == local && at.After(from) && at.Before(to)
				})
			}
			if long := holdfast.FallbackTimeout + ttl + time.Second; fallback != holdfast.FailClosed && d.to.Sub(d.from) > long && !goesOn(d.from, d.from.Add(long), true) {
				broken("process %d did not fall back in an outage of %v", p, d.to.Sub(d.from))
			}
			if !goesOn(d.to, d.to.Add(returns), false) {
				broken("process %d had no lease of the store for %v after an outage", p, returns)
			}
		}
	}
	return r
}
