package cas

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// On a store without a clock, a lease has to be seen for its TTL before it ends, which processes that live
// shorter never do. If the store is a WitnessStore, an operation that ends without the lease makes a
// witness of it and notes that in the document.
//
// The order makes it a proof: first the stamp is seen, then the witness is made, then it is
// noted beside the same stamp. A stamp is never used again. So if the stamp is still there and its
// witness has vanished, at least the time of the witness has passed since the stamp was
// written, however long each step took. A witness that was never noted proves nothing.

// witnessTimeout bounds the making of a witness and its note, for which a TryLock waits.
const witnessTimeout = 2 * time.Second

// witnessesAtOnce is how many witnesses an engine makes at the same time. An operation that comes meanwhile makes
// none: most likely it has seen the same lease, and otherwise the next one makes it.
const witnessesAtOnce = 4

// sighted is a lease as it was seen.
type sighted struct {
	id    string
	stamp uint64
	ttl   queue.Time
	age   queue.Time // for how long the stamp had been there, at least
	note  note
	noted bool // the note has a witness, which is not known to be of another store
}

// believe returns the sightings of the leases of a document, which are as old as their vanished witnesses prove. If the
// store does not say, they are as old as they seem. d and s may be nil.
func (e *Engine) believe(ctx context.Context, prefix string, d *document, s *sightings) *sightings {
	if e.witnesses == nil {
		return s
	}
	var names []string
	for _, l := range d.sighted(s) {
		if l.noted && l.age < min(l.ttl, l.note.proves) && !slices.Contains(names, l.note.witness) {
			names = append(names, l.note.witness)
		}
	}
	if len(names) == 0 {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	states, err := e.witnesses.Witnesses(ctx, prefix, names)
	if err != nil {
		return s
	}
	next := &sightings{leases: maps.Clone(s.leases), waiters: s.waiters}
	for i, h := range d.state.Holders {
		is, known := s.lease(h.ID, d.stamps[i])
		n := slices.Index(names, d.notes[i].witness)
		if !known || n < 0 {
			continue
		}
		switch at := time.Now().Add(-translate.Duration(d.notes[i].proves)); {
		case states[n] == WitnessVanished && at.Before(is.at):
			is.at = at
		case states[n] == WitnessForeign:
			is.foreign = names[n]
		}
		next.leases[h.ID] = is
	}
	return next
}

// sighted returns the leases of a document that have stamps.
func (d *document) sighted(s *sightings) []sighted {
	if d == nil {
		return nil
	}
	all := make([]sighted, 0, len(d.stamps))
	for i, stamp := range d.stamps {
		h := d.state.Holders[i]
		is, _ := s.lease(h.ID, stamp)
		noted := d.notes[i].witness != "" && d.notes[i].witness != is.foreign
		all = append(all, sighted{id: h.ID, stamp: stamp, ttl: h.Deadline, age: s.age(h.ID, stamp, time.Now()), note: d.notes[i], noted: noted})
	}
	return all
}

// left returns leases that need a witness: some with the same TTL. A process that has looked at the resource for longer than
// that TTL, without a pause of that length, needs none: it sees a dead holder's lease end about as soon as others would.
func (w *writer) left() []sighted {
	all := slices.DeleteFunc(w.parsed.sighted(w.seen.Load()), func(s sighted) bool {
		watched := s.noted && s.age < s.note.proves
		looks := time.Since(w.since) > translate.Duration(s.ttl) && w.away <= translate.Duration(s.ttl)
		return watched || s.age >= s.ttl || looks
	})
	if len(all) == 0 {
		return nil
	}
	chosen := turn(all)
	return slices.DeleteFunc(all, func(s sighted) bool { return s.ttl != chosen })
}

// turn chooses a TTL: half of the time that of the lowest stamp, most likely of a dead holder, since the stamps of the living rise;
// otherwise any, since stamps are by the clocks of their holders, and one that is behind must not stand before the dead for good.
func turn(all []sighted) queue.Time {
	if rand.N(2) == 0 {
		return slices.MinFunc(all, func(a, b sighted) int { return cmp.Compare(a.stamp, b.stamp) }).ttl
	}
	var ttls []queue.Time
	for _, s := range all {
		ttls = append(ttls, s.ttl)
	}
	slices.Sort(ttls)
	ttls = slices.Compact(ttls)
	return ttls[rand.N(len(ttls))]
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
	select {
	case e.witnessing <- struct{}{}:
		defer func() { <-e.witnessing }()
	default:
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
