package trace

import "slices"

// Divergence is an event that a store must never show, made of one that it has shown.
type Divergence struct {
	Name   string
	Module string // which rejects it: Queue or Token
	// change changes an event, and reports whether it could. before is what the store showed until then, passed the
	// time since.
	change func(t Trace, e, before *Event, passed int64) bool
}

// Plant returns the beginning of a trace up to an event that is changed into a divergence, for the first event after a
// number of others that can be.
func (d Divergence) Plant(t Trace, after int) (planted Trace, ok bool) {
	for i := max(1, after); i < len(t.Events); i++ {
		planted = t.Clone()
		planted.Events = planted.Events[:i+1]
		e, before := &planted.Events[i], &planted.Events[i-1]
		if d.change(planted, e, before, e.At-before.At) {
			return planted, true
		}
	}
	return Trace{}, false
}

func (e *Event) holder(id string) *Holder {
	if i := slices.IndexFunc(e.Holds, func(h Holder) bool { return h.ID == id }); i >= 0 {
		return &e.Holds[i]
	}
	return nil
}

func (e *Event) waits(id string) bool { return slices.Contains(e.Line, id) }

func (e *Event) hold(id string, rest int64) { e.Holds = append(e.Holds, Holder{ID: id, Rest: rest}) }

func (e *Event) unhold(id string) {
	e.Holds = slices.DeleteFunc(e.Holds, func(h Holder) bool { return h.ID == id })
}

func (e *Event) unwait(id string) {
	e.Line = slices.DeleteFunc(e.Line, func(w string) bool { return w == id })
}

// handedTo grants a lease to a waiter, in the step of another request.
func (e *Event) handedTo(t Trace, id string) {
	e.unwait(id)
	e.hold(id, min(t.Fixed[id].TTL, 3_000_000))
}

// granted turns an Ask that was not granted into one that was.
func (e *Event) granted(t Trace) {
	e.unwait(e.ID)
	e.Says, e.Rest = "granted", t.Fixed[e.ID].TTL
	e.hold(e.ID, e.Rest)
}

// used is the weight that is held.
func (t Trace) used(e *Event) (sum int) {
	for _, h := range e.Holds {
		sum += t.Fixed[h.ID].Weight
	}
	return sum
}

func (t Trace) fits(e *Event, id string) bool { return t.used(e)+t.Fixed[id].Weight <= t.Capacity }

// woken returns the waiter to which an event of another party has granted, if there is one.
func (e *Event) woken(before *Event) string {
	for _, id := range before.Line {
		if id != e.ID && e.holder(id) != nil {
			return id
		}
	}
	return ""
}

// made returns the only lease that an event has made.
func (e *Event) made(before *Event) (h *Holder, ok bool) {
	for i := range e.Holds {
		if before.holder(e.Holds[i].ID) == nil {
			if h != nil {
				return nil, false
			}
			h = &e.Holds[i]
		}
	}
	return h, h != nil
}

// Divergences are what a store must never show.
var Divergences = []Divergence{
	{"a grant passes the front of the line", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		id := e.woken(before)
		if id == "" || len(e.Line) == 0 || t.Fixed[e.Line[0]] != t.Fixed[id] {
			return false
		}
		e.holder(id).ID, e.Line[0] = e.Line[0], id
		return true
	}},
	{"a grant beyond the capacity", "Queue", func(t Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "queued" || t.fits(e, e.ID) {
			return false
		}
		e.granted(t)
		return true
	}},
	{"a newcomer that fits passes the line", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		if e.Op != Ask || e.Says == "granted" || len(e.Line) < 2 || before.waits(e.ID) || !t.fits(e, e.ID) {
			return false
		}
		e.granted(t)
		return true
	}},
	{"a light waiter passes a heavy one", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		if e.Op != Leave || len(e.Line) < 2 || !before.waits(e.Line[1]) || !t.fits(e, e.Line[1]) {
			return false
		}
		e.handedTo(t, e.Line[1])
		return true
	}},
	{"an ID that has ended is granted", "Queue", func(t Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "ended" || len(e.Line) > 0 || e.holder(e.ID) != nil || !t.fits(e, e.ID) {
			return false
		}
		e.granted(t)
		return true
	}},
	{"an ID that has ended joins the line", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "ended" {
			return false
		}
		e.Says, e.Place = "queued", len(e.Line)
		e.Line = append(e.Line, e.ID)
		return true
	}},
	{"a renewal revives a lease that is over", "Queue", func(t Trace, e, before *Event, passed int64) bool {
		h := before.holder(e.ID)
		if e.Op != Renew || e.Says != "no" || len(e.Holds) > 0 || h != nil && h.Rest > passed {
			return false
		}
		e.Says = "done"
		e.hold(e.ID, e.TTL)
		return true
	}},
	{"a renewal does not extend", "Queue", func(_ Trace, e, before *Event, passed int64) bool {
		h := before.holder(e.ID)
		if e.Op != Renew || e.Says != "done" || h == nil || h.Rest-passed == e.holder(e.ID).Rest {
			return false
		}
		e.holder(e.ID).Rest = h.Rest - passed
		return true
	}},
	{"a renewal is refused though the lease lasts", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Op != Renew || e.Says != "done" {
			return false
		}
		e.Says = "no"
		return true
	}},
	{"a lease outlives its deadline", "Queue", func(_ Trace, e, before *Event, passed int64) bool {
		for _, h := range before.Holds {
			if h.Rest <= passed && h.ID != e.ID && e.holder(h.ID) == nil && len(e.Holds) == 0 {
				e.hold(h.ID, 1)
				return true
			}
		}
		return false
	}},
	{"a lease ends before its deadline", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		for _, h := range before.Holds {
			if e.Op == Ask && h.ID != e.ID && e.holder(h.ID) != nil {
				e.unhold(h.ID)
				return true
			}
		}
		return false
	}},
	{"a release frees the lease of another", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		if e.Op != Leave || before.holder(e.ID) != nil || len(e.Holds) != 1 || before.holder(e.Holds[0].ID) == nil {
			return false
		}
		e.Holds = nil
		return true
	}},
	{"a lease stays after its release", "Queue", func(_ Trace, e, before *Event, passed int64) bool {
		h := before.holder(e.ID)
		if e.Op != Leave || h == nil || h.Rest <= passed || len(e.Holds) > 0 {
			return false
		}
		e.hold(e.ID, h.Rest-passed)
		return true
	}},
	{"a waiter stays after its withdrawal", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		i := slices.Index(before.Line, e.ID)
		if e.Op != Leave || i < 0 || i > len(e.Line) {
			return false
		}
		e.Line = slices.Insert(e.Line, i, e.ID)
		return true
	}},
	{"a release grants to nobody although one waits", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		id := e.woken(before)
		if e.Op != Leave || id == "" || len(e.Holds) != 1 {
			return false
		}
		e.Holds, e.Line = nil, append([]string{id}, e.Line...)
		return true
	}},
	{"a release grants to two", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		id := e.woken(before)
		if e.Op != Leave || id == "" || len(e.Line) == 0 || t.fits(e, e.Line[0]) {
			return false
		}
		e.handedTo(t, e.Line[0])
		return true
	}},
	{"a grant to a waiter lasts longer than the claim window", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		id := e.woken(before)
		if id == "" || t.Fixed[id].TTL <= e.holder(id).Rest {
			return false
		}
		e.holder(id).Rest = t.Fixed[id].TTL
		return true
	}},
	{"a grant is shorter than its TTL", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "granted" || before.holder(e.ID) != nil {
			return false
		}
		e.Rest /= 2
		e.holder(e.ID).Rest = e.Rest
		return true
	}},
	{"an answer promises more than the store keeps", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "granted" {
			return false
		}
		e.Rest += 1_000_000
		return true
	}},
	{"a grant is answered and not made", "Queue", func(t Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "no" || !e.Waits && len(e.Holds) == 0 {
			return false
		}
		e.Says, e.Rest = "granted", t.Fixed[e.ID].TTL
		return true
	}},
	{"a poll loses its place", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "queued" || !before.waits(e.ID) || e.Line[len(e.Line)-1] == e.ID {
			return false
		}
		e.unwait(e.ID)
		e.Place, e.Line = len(e.Line), append(e.Line, e.ID)
		return true
	}},
	{"a poll takes a second place", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		if e.Op != Ask || e.Says != "queued" || !before.waits(e.ID) {
			return false
		}
		e.Line = append(e.Line, e.ID)
		return true
	}},
	{"an answer has the wrong place", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Says != "queued" || e.Place == 0 {
			return false
		}
		e.Place--
		return true
	}},
	{"a live waiter is dropped", "Queue", func(_ Trace, e, before *Event, _ int64) bool {
		for _, id := range e.Line {
			if id != e.ID && before.waits(id) {
				e.unwait(id)
				return true
			}
		}
		return false
	}},
	{"a waiter that died is granted", "Queue", func(t Trace, e, before *Event, _ int64) bool {
		for i := len(t.Events) - 3; i >= 0; i-- {
			for _, id := range t.Events[i].Line {
				gone := !slices.ContainsFunc(t.Events[i+1:], func(e Event) bool {
					return e.ID == id || e.holder(id) != nil || e.waits(id)
				})
				if gone && e.Op == Leave && e.woken(before) == "" && len(e.Holds)+len(e.Line) == 0 {
					e.handedTo(t, id)
					return true
				}
			}
		}
		return false
	}},
	{"a request that does not wait joins the line", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Op != Ask || e.Waits || e.Says != "no" {
			return false
		}
		e.Line = append(e.Line, e.ID)
		return true
	}},
	{"a yield keeps the lease", "Queue", func(_ Trace, e, before *Event, passed int64) bool {
		if e.Op != Ask || e.Yields == "" {
			return false
		}
		h := before.holder(e.Yields)
		if h == nil || h.Rest <= passed {
			return false
		}
		e.hold(h.ID, h.Rest-passed)
		return true
	}},
	{"a lease that an operator broke is renewed", "Queue", func(t Trace, e, _ *Event, _ int64) bool {
		broke := slices.ContainsFunc(t.Events, func(b Event) bool { return b.Op == Break && b.Says == "done" && !b.Force && b.ID == e.ID })
		h := e.holder(e.ID)
		if e.Op != Renew || e.Says != "no" || !broke || h == nil {
			return false
		}
		e.Says, h.Rest = "done", e.TTL
		return true
	}},
	{"a break ends a lease at once", "Queue", func(_ Trace, e, _ *Event, _ int64) bool {
		if e.Op != Break || e.Force || e.holder(e.ID) == nil {
			return false
		}
		e.unhold(e.ID)
		return true
	}},
	{"a break by force leaves the lease", "Queue", func(_ Trace, e, before *Event, passed int64) bool {
		h := before.holder(e.ID)
		if e.Op != Break || !e.Force || h == nil || h.Rest <= passed || len(e.Holds) > 0 {
			return false
		}
		e.hold(e.ID, h.Rest-passed)
		return true
	}},
	{"a token is given twice", "Token", func(_ Trace, e, before *Event, _ int64) bool {
		h, ok := e.made(before)
		if !ok || before.Last == 0 {
			return false
		}
		h.Token, e.Last = before.Last, before.Last
		return true
	}},
	{"a token falls", "Token", func(_ Trace, e, before *Event, _ int64) bool {
		h, ok := e.made(before)
		if !ok || before.Last < 2 {
			return false
		}
		h.Token = before.Last - 1
		return true
	}},
	{"a token is one that was set aside for another", "Token", func(t Trace, e, before *Event, _ int64) bool {
		h, ok := e.made(before)
		if !ok || len(before.Holds) != 1 || t.Fixed[before.Holds[0].ID].Reserve == 0 {
			return false
		}
		h.Token = before.Holds[0].Token + 1
		return true
	}},
	{"a token stays behind the clock", "Token", func(t Trace, e, before *Event, _ int64) bool {
		h, ok := e.made(before)
		if !ok || before.Last == 0 || h.Token == before.Last+1 {
			return false
		}
		h.Token = before.Last + 1
		e.Last = h.Token + t.Fixed[h.ID].Reserve
		return true
	}},
	{"tokens are not set aside", "Token", func(t Trace, e, before *Event, _ int64) bool {
		h, ok := e.made(before)
		if !ok || t.Fixed[h.ID].Reserve == 0 {
			return false
		}
		e.Last = h.Token
		return true
	}},
	{"the last token falls without a grant", "Token", func(_ Trace, e, before *Event, _ int64) bool {
		if _, ok := e.made(before); ok || e.Last < 2 || len(e.Holds) == 0 {
			return false
		}
		e.Last--
		return true
	}},
}
