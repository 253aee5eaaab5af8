package cas

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// On a store without a clock, a lease has to be seen for its TTL before it ends. Processes that live shorter
// never see one end, unless the store shows for how long they were not there: by a
// witness (a WitnessStore). Who goes without the lease makes one and notes it in the document.
//
// The order is what makes it a proof: first the stamp is seen, then the witness is made, then it is
// noted beside the same stamp. A stamp is never used again. So if the stamp is still there and its
// witness has vanished, then at least the time of the witness has passed since the stamp was
// written, however long each step took. A witness that was never noted proves nothing.

// witnessTimeout bounds the making of a witness and its note, for which a TryLock waits.
const witnessTimeout = 2 * time.Second

// sighted is a lease as it was seen.
type sighted struct {
	id    string
	stamp uint64
	ttl   queue.Time
	age   queue.Time // for how long the stamp had been there, at least
	note  note
}

// believe makes the leases as old as their vanished witnesses prove. If the store does not say, they are not
// older than they seem.
func (e *Engine) believe(w *writer, ops []*operation) {
	if e.witnesses == nil || w.parsed == nil || !slices.ContainsFunc(ops, func(op *operation) bool { return op.joins }) {
		return
	}
	var names []string
	for _, s := range w.sighted() {
		if s.note.witness != "" && s.age < min(s.ttl, s.note.proves) && !slices.Contains(names, s.note.witness) {
			names = append(names, s.note.witness)
		}
	}
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	over, err := e.witnesses.Vanished(ctx, w.key.Prefix, names)
	if err != nil {
		return
	}
	vanished := make(map[string]bool)
	for i, name := range names {
		vanished[name] = over[i]
	}
	w.seen.Store(w.seen.Load().proven(w.parsed, vanished))
}

// proven returns the sightings after some witnesses of the document's leases have vanished.
func (s *sightings) proven(d *document, vanished map[string]bool) *sightings {
	next := &sightings{leases: maps.Clone(s.leases), waiters: s.waiters}
	for i, h := range d.state.Holders {
		is, ok := s.lease(h.ID, d.stamps[i])
		if at := time.Now().Add(-translate.Duration(d.notes[i].proves)); ok && vanished[d.notes[i].witness] && at.Before(is.at) {
			next.leases[h.ID] = sighting{stamp: is.stamp, at: at}
		}
	}
	return next
}

// sighted returns the leases of the latest document.
func (w *writer) sighted() []sighted {
	if w.parsed == nil {
		return nil
	}
	all, seen := make([]sighted, 0, len(w.parsed.stamps)), w.seen.Load()
	for i, stamp := range w.parsed.stamps {
		h := w.parsed.state.Holders[i]
		all = append(all, sighted{id: h.ID, stamp: stamp, ttl: h.Deadline, age: seen.age(h.ID, stamp), note: w.parsed.notes[i]})
	}
	return all
}

// left returns leases that need a witness: that with the lowest stamp and those with the same TTL. A process that
// has known the resource for longer than that TTL needs none: if it tries again, it sees a dead holder's lease end.
func (w *writer) left() []sighted {
	all := slices.DeleteFunc(w.sighted(), func(s sighted) bool {
		watched := s.note.witness != "" && s.age < s.note.proves
		return watched || s.age >= s.ttl || time.Since(w.since) > translate.Duration(s.ttl)
	})
	if len(all) == 0 {
		return nil
	}
	// Another TTL has its turn at another try: the stamps of those who live become higher.
	first := slices.MinFunc(all, func(a, b sighted) int { return cmp.Compare(a.stamp, b.stamp) })
	return slices.DeleteFunc(all, func(s sighted) bool { return s.ttl != first.ttl })
}

// witness is one that was made for leases as they were seen before.
type witness struct {
	name  string
	lasts queue.Time
	of    []sighted
}

// leave makes a witness of the leases that an operation has left behind. If that fails, the next process
// tries it.
func (e *Engine) leave(ctx context.Context, res engine.Resource, op *operation) {
	if len(op.left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	var rest queue.Time
	for _, s := range op.left {
		rest = max(rest, s.ttl-s.age)
	}
	name, lasts, err := e.witnesses.Witness(ctx, res.Prefix, translate.Duration(rest))
	if err != nil {
		return
	}
	_ = e.do(ctx, res, &operation{
		witness: &witness{name: name, lasts: translate.Micros(lasts), of: op.left},
		apply:   func(*queue.Queue, instant) queue.Answer { return queue.Answer{Status: queue.Done} },
	})
}

// note writes the notes of operations beside the stamps that they are of, unless these have others by now.
func (d *document) note(ops []*operation) {
	for _, op := range ops {
		if op.witness == nil {
			continue
		}
		for _, s := range op.witness.of {
			i := slices.IndexFunc(d.state.Holders, func(h queue.Holder) bool { return h.ID == s.id })
			if i >= 0 && d.stamps[i] == s.stamp && d.notes[i] == s.note {
				d.notes[i] = note{witness: op.witness.name, proves: s.age + op.witness.lasts}
			}
		}
	}
}
