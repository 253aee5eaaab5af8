package cas

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// maxTombstones is how many tombstones a document keeps.
const maxTombstones = 256

// longestKeep is for how long a document is kept at most: a longer time, as of a mark for ever, may be none
// in the unit of a store.
const longestKeep = 100 * 365 * 24 * 3600 * queue.Second

// draft is the document that operations make of the latest one, to be swapped for it.
type draft struct {
	document *document // the new one
	bytes    []byte
	changed  bool
	keep     time.Duration
	messages []Message
	marks    bool // see Change.Marks
	instant
}

// draft applies operations to the document of a resource as it was last seen. The results
// are in the operations.
func (e *Engine) draft(w *writer, ops []*operation) (*draft, error) {
	if slices.ContainsFunc(ops, func(op *operation) bool { return op.joins }) {
		w.seen.Store(e.believe(context.Background(), w.key.Prefix, w.parsed, w.seen.Load()))
	}
	at, err := e.instant(context.Background())
	if err != nil {
		return nil, err
	}
	now, was, before := at.now, w.parsed, w.doc.Value
	if was == nil || was.forgettable(now) {
		was = &document{}
		before = was.encode()
		was.state.Forget = now + e.params.Retention
	}
	state := was.state
	state.Holders, state.Waiters = slices.Clone(state.Holders), slices.Clone(state.Waiters)
	given := e.time(w, &state, was.stamps, at) // the deadlines
	if err := e.check(w, &state, ops, now); err != nil {
		return nil, err
	}
	q := queue.Restore(e.params, state)
	is := &document{clients: maps.Clone(was.clients)}
	if is.clients == nil {
		is.clients = make(map[string]engine.Client)
	}
	touched := make(map[string]bool)
	for _, op := range ops {
		op.instant, op.answer = at, op.apply(q, at)
		op.amend()
		op.holder = is.client(op.answer.Holder.ID)
		if op.client != nil {
			is.clients[op.client.ID] = *op.client
		}
		if op.answer.Status == queue.Granted || op.answer.Status == queue.Done {
			touched[op.id] = true
		}
	}
	is.state = q.Record()
	is.leave()
	unpad(was, &is.state, at.pad)
	w.swept = is.state.Swept
	e.stamp(was, is, given, touched, now)
	is.note(ops)
	d := &draft{document: is, bytes: is.encode(), messages: messages(w.key.Prefix, was, ops, now), instant: at}
	if d.changed = len(d.messages) > 0 || !sameDocument(d.bytes, before); !d.changed {
		return d, nil
	}
	is.state.Prune(maxTombstones, now)
	is.age(was, w.seen.Load(), at.local)
	d.bytes = is.encode()
	d.marks = is.state.Marked != was.state.Marked
	keep := max(is.state.Forget-now, is.longest()+e.params.Retention)
	d.keep = translate.Duration(min(keep, longestKeep))
	return d, nil
}

// longest returns the longest TTL of the leases of a document without deadlines: the time to forget it
// may be by the clock of a machine that is behind.
func (d *document) longest() queue.Time {
	var ttl queue.Time
	for i := range d.stamps {
		ttl = max(ttl, d.state.Holders[i].Deadline)
	}
	return ttl
}

// unpad takes the pad out of the TTL of those who have joined the line: it is of this
// instant, and they are granted at another.
func unpad(was *document, s *queue.Record, pad queue.Time) {
	waited := make(map[string]bool, len(was.state.Waiters))
	for _, w := range was.state.Waiters {
		waited[w.ID] = true
	}
	for i := range s.Waiters {
		if w := &s.Waiters[i]; !waited[w.ID] {
			w.TTL -= pad
		}
	}
}

// time sets the deadlines of a state that was stored without, and returns those that it set. The
// time to forget is by another machine's clock then, so it is made to be after them.
func (e *Engine) time(w *writer, s *queue.Record, stamps []uint64, at instant) map[string]queue.Time {
	if e.timed {
		return nil
	}
	seen, given := w.seen.Load(), make(map[string]queue.Time, len(s.Holders))
	for i := range s.Holders {
		h := &s.Holders[i]
		h.Deadline += at.now - seen.age(h.ID, stamps[i], at.local)
		given[h.ID] = h.Deadline
		s.Forget = max(s.Forget, h.Deadline+e.params.Retention)
	}
	return given
}

// stamp replaces deadlines by what is stored without a clock: the lease's TTL, and a stamp that
// is a new one if the TTL counts anew. That is so for every lease that an operation
// touched, also if it did not become longer: its holder was told how long it lasts. A stamp is the
// time of day, which nobody compares with another: so it is a new one even if the store lost
// the latest stamps, and a client that saw them does not take it for one of them.
func (e *Engine) stamp(was, is *document, given map[string]queue.Time, touched map[string]bool, now queue.Time) {
	if e.timed {
		return
	}
	before := was.places()
	is.stamps, is.ages = make([]uint64, len(is.state.Holders)), make([]queue.Time, len(is.state.Holders))
	is.notes = make([]note, len(is.state.Holders))
	for i := range is.state.Holders {
		h := &is.state.Holders[i]
		b, old := before[h.ID]
		switch {
		case old && h.Deadline == given[h.ID] && !touched[h.ID]:
			h.Deadline, is.stamps[i], is.ages[i] = was.state.Holders[b].Deadline, was.stamps[b], was.ages[b]
			is.notes[i] = was.notes[b]
		case old:
			h.Deadline, is.stamps[i] = h.Deadline-now, max(was.stamps[b]+1, uint64(now))
		default:
			h.Deadline, is.stamps[i] = h.Deadline-now, uint64(now)
		}
	}
}

// age sets for how long the stamps that stay have been there, so that a lease whose holder died
// ends even if nobody sees it for the whole of its TTL while others change the document.
func (d *document) age(was *document, seen *sightings, at time.Time) {
	before := was.places()
	for i, stamp := range d.stamps {
		id := d.state.Holders[i].ID
		if b, ok := before[id]; ok && was.stamps[b] == stamp {
			d.ages[i] = max(d.ages[i], seen.age(id, stamp, at))
		}
	}
}

// places returns the indexes of the leases that have a stamp, by holder ID.
func (d *document) places() map[string]int {
	all := make(map[string]int, len(d.stamps))
	for i := range d.stamps {
		all[d.state.Holders[i].ID] = i
	}
	return all
}
