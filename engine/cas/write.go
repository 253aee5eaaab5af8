package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

const (
	// maxDocument is the size in bytes above which a document does not grow: some 5,000
	// waiters. Stores have limits of their own, of which 1 MB is the lowest.
	maxDocument = 512 << 10
	// racesInARow is how many conflicts there are until a newcomer lets others go first. At once after a
	// conflict the document is new, so that two or three tries fit between the changes of somebody who makes them at intervals.
	racesInARow = 3
	// longestPause bounds the pause after a conflict, in round trips.
	longestPause = 16
	// longestLeave bounds the pause of a waiter that leaves from behind others, who may leave at the same time.
	longestLeave = 500 * time.Millisecond
	// A swap is taken to need from shortestTrip to longestTrip, where a pause depends on it.
	shortestTrip = 100 * time.Microsecond
	longestTrip  = 25 * time.Millisecond
	// failurePause is by how much the pause grows with each failure in a row, and
	// longestFailurePause bounds it: a store that is read-only refuses changes at once.
	failurePause        = 20 * time.Millisecond
	longestFailurePause = 500 * time.Millisecond
)

// write is the writer of a resource: it applies operations, all that wait at once, until
// there are none.
func (e *Engine) write(w *writer) {
	for {
		ops := e.writers.take(w)
		if len(ops) == 0 {
			return
		}
		if ops = present(ops); len(ops) == 0 {
			continue
		}
		fresh := w.behind() || !w.urgent(ops) && w.hot() && time.Since(w.seenAt) > gatherTrips*w.pace()
		if fresh {
			if err := e.read(w); err != nil {
				w.fail(ops, err)
				continue
			}
		}
		if yielded, err := e.yield(w, ops); err != nil {
			w.fail(ops, err)
			continue
		} else if yielded {
			fresh = true
		}
		if w.hot() && !w.urgent(ops) {
			sent, err := e.propose(w, ops)
			if err != nil {
				w.fail(ops, err)
				continue
			}
			if fresh = fresh || sent; sent && !w.knows(ops) {
				ops, fresh = e.gather(w, ops)
			}
		}
		own, proposals := apart(ops)
		if len(own) > 0 && len(proposals) > 0 && !w.urgent(own) && w.knows(own) {
			e.apply(w, own, fresh) // polls that need no swap are not put off by those of others
			own, ops, fresh = nil, proposals, false
		}
		if len(own) == 0 {
			later, err := e.gatherOn(w, ops, fresh)
			if err != nil {
				w.fail(ops, err)
				continue
			}
			if later {
				continue
			}
			fresh = true
		}
		e.apply(w, ops, fresh)
	}
}

// apart returns the operations of this process, and the proposals of others. In one swap the proposals are first: an
// operation of this process may end the lease on which they depend.
func apart(ops []*operation) (own, proposals []*operation) {
	for _, op := range ops {
		if op.proposed == nil {
			own = append(own, op)
		} else {
			proposals = append(proposals, op)
		}
	}
	return own, proposals
}

// gather adds the operations that have come meanwhile, in the order in which one swap applies them. fresh: none has come.
func (e *Engine) gather(w *writer, ops []*operation) (all []*operation, fresh bool) {
	came := present(e.writers.more(w))
	own, proposals := apart(append(ops, came...))
	return append(proposals, own...), len(came) == 0
}

// present fails the operations whose callers have gone, and returns the others.
func present(ops []*operation) []*operation {
	var rest []*operation
	for _, op := range ops {
		if err := ended(op.ctx); err != nil {
			op.fail(err)
			continue
		}
		rest = append(rest, op)
	}
	return rest
}

// apply applies operations to the document of a resource, and swaps it, as often as
// somebody else has changed it meanwhile. fresh: the document was read after the operations came.
func (e *Engine) apply(w *writer, ops []*operation, fresh bool) {
	deadline := time.Now().Add(e.timeout)
	conflicts, failures := 0, 0
	w.vain = 0
	for len(ops) > 0 {
		d, err := e.draft(w, ops)
		if err != nil {
			w.fail(ops, err)
			return
		}
		if !d.changed && fresh {
			e.finish(w, ops)
			return
		}
		if !d.changed {
			rev := w.doc.Rev
			if err := e.read(w); err != nil {
				w.fail(ops, err)
				return
			}
			if fresh = true; w.doc.Rev == rev && d.instant.heldFor(w.doc.At) {
				e.finish(w, ops)
				return
			}
			continue
		}
		all := len(ops)
		if ops = refuse(ops, d, w); len(ops) < all {
			continue
		}
		sent := time.Now()
		out, again, err := e.swaps.do(Change{Key: w.key, Rev: w.doc.Rev, Value: d.bytes, Keep: d.keep, Marks: d.marks, Messages: d.messages}, w.locked)
		w.locked = errors.Is(err, errLocked)
		w.swapped = time.Now()
		w.trip.Store(int64(w.swapped.Sub(sent)))
		switch {
		case err != nil:
			took, err := e.lookUp(w, d, err, deadline)
			if err != nil {
				w.fail(ops, err)
				return
			}
			if fresh = true; took {
				e.finish(w, ops)
				return
			}
			repeat(ops)
			time.Sleep(min(time.Duration(failures)*failurePause, longestFailurePause)) // none after the first
			failures++
		case out.Swapped || bytes.Equal(out.Doc.Value, d.bytes): // or an earlier copy of the call has made it
			out.Doc.Value = d.bytes
			e.adopt(w, out.Doc, d.document)
			if d.instant.heldFor(out.Doc.At) {
				e.finish(w, ops)
				return
			}
			if time.Now().After(deadline) {
				w.fail(ops, fmt.Errorf("%w: the store's clock was set while the call was under way", engine.ErrUnavailable))
				return
			}
			fresh = true
			repeat(ops)
		default:
			if conflicts++; again {
				repeat(ops)
			}
			w.contended = true
			if err := e.receive(w, out.Doc); err != nil {
				w.fail(ops, err)
				return
			}
			if ops, fresh, err = e.again(w, ops, conflicts); err != nil {
				w.fail(ops, err)
				return
			}
		}
	}
}

// lookUp reads the document after a change that failed with an error, and reports whether it took effect all the same.
func (e *Engine) lookUp(w *writer, d *draft, trouble error, deadline time.Time) (took bool, err error) {
	if errors.Is(trouble, engine.ErrDenied) || time.Now().After(deadline) {
		return false, trouble
	}
	w.trouble.Store(&trouble)
	if err := e.read(w); err != nil {
		return false, err
	}
	return bytes.Equal(w.doc.Value, d.bytes) && d.instant.heldFor(w.doc.At), nil
}

// fail fails operations, and forgets the document, of which nothing is known then.
func (w *writer) fail(ops []*operation, err error) {
	w.doc, w.parsed = Doc{}, nil
	for _, op := range ops {
		op.fail(err)
	}
}

// again returns the operations to apply after a conflict: those for which there is time, and others that
// have come, since somebody may wait for one of them. fresh: the document was read after they came.
func (e *Engine) again(w *writer, ops []*operation, conflicts int) (rest []*operation, fresh bool, err error) {
	rest, fresh = e.gather(w, overdue(present(ops), e.timeout, conflicts))
	if len(rest) == 0 || w.urgent(rest) {
		return rest, fresh, nil
	}
	if sent, err := e.propose(w, rest); sent || err != nil {
		if fresh = true; err == nil && !w.knows(rest) {
			rest, fresh = e.gather(w, rest)
		}
		return rest, fresh, err
	}
	if n := w.leaving(rest); n > longestPause {
		w.pause(n)
		return rest, true, e.read(w)
	}
	switch {
	case conflicts%racesInARow != 0:
		return rest, fresh, nil
	case conflicts%(2*racesInARow) == 0:
		return rest, true, e.settle(w, rest)
	}
	w.pause(min(conflicts, longestPause))
	return rest, true, e.read(w) // the document is old by now
}

// read reads the document of a resource.
func (e *Engine) read(w *writer) error {
	doc, _, err := e.reads.do(Read{Key: w.key, Rev: w.doc.Rev}, false)
	if err != nil {
		return err
	}
	if doc.Unchanged {
		w.doc.At, w.seenAt = doc.At, time.Now()
		return nil
	}
	return e.receive(w, doc)
}

// receive takes a document that has arrived from the store.
func (e *Engine) receive(w *writer, doc Doc) error {
	d, err := e.parse(w.key, doc)
	if err == nil {
		if w.parsed != nil {
			w.courtesy = courtesies
		}
		e.adopt(w, doc, d)
	}
	return err
}

// parse returns what is in a document.
func (e *Engine) parse(key Key, doc Doc) (*document, error) {
	d, err := decode(doc.Value)
	if err == nil && e.timed != (len(d.stamps) == 0) && len(d.state.Holders) > 0 {
		err = fmt.Errorf("%w: it was written for a store with another kind of clock", errDocument)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: resource %q: %w", engine.ErrDenied, key.Name, err)
	}
	return d, nil
}

// adopt makes a document the latest that this process has seen.
func (e *Engine) adopt(w *writer, doc Doc, d *document) {
	w.doc, w.parsed, w.seenAt = doc, d, time.Now()
	if !e.timed {
		w.seen.Store(w.seen.Load().with(d, doc.Age, w.looked.Load()))
	}
}

// finish passes the results to the callers. They are true of the latest document.
func (e *Engine) finish(w *writer, ops []*operation) {
	w.trouble.Store(nil)
	var shown queue.Time
	if e.timed {
		shown = w.doc.At.UnixMicro()
	}
	for _, op := range ops {
		if e.timed {
			op.shorten(shown)
		}
		if op.proposed != nil {
			continue // nobody waits for it
		}
		e.polls.note(op, w.key, shown)
		if op.waiting() {
			w.note(op.line)
		}
		if e.witnesses != nil && op.over() {
			op.left = w.left()
		}
		op.finish()
	}
}

// repeat notes that operations are applied again that may have had their effect.
func repeat(ops []*operation) {
	for _, op := range ops {
		op.again = true
	}
}

// refuse fails as many of the latest operations that add a party to a document as make it too large, or some of them, and
// returns the others. What else makes it larger is bounded: stamps, notes and tombstones.
func refuse(ops []*operation, d *draft, w *writer) []*operation {
	excess, grown := len(d.bytes)-max(maxDocument, len(w.doc.Value)), len(d.bytes)-len(w.doc.Value)
	if excess <= 0 {
		return ops
	}
	joins := func(op *operation) bool {
		return op.client != nil && !w.parsed.has(op.id) && !w.parsed.has(op.line)
	}
	joining := 0
	for _, op := range ops {
		if joins(op) {
			joining++
		}
	}
	fit := joining - (joining*excess+grown-1)/grown // about: the document is drafted again with these
	var rest []*operation
	for _, op := range ops {
		if !joins(op) {
			rest = append(rest, op)
			continue
		}
		if fit--; fit >= 0 {
			rest = append(rest, op)
			continue
		}
		op.fail(fmt.Errorf("%w: the document of this resource would have %d bytes for %d holders and %d waiters, and %d bytes is the most",
			engine.ErrDenied, len(d.bytes), len(d.document.state.Holders), len(d.document.state.Waiters), maxDocument))
	}
	return rest
}

// overdue fails the operations for which there is no more time, and returns the others.
func overdue(ops []*operation, timeout time.Duration, conflicts int) []*operation {
	var rest []*operation
	for _, op := range ops {
		if time.Since(op.sent) > timeout {
			op.fail(fmt.Errorf("%w: %d others changed the resource first", engine.ErrUnavailable, conflicts))
			continue
		}
		rest = append(rest, op)
	}
	return rest
}

// urgent reports whether others may wait for one of the operations. Nobody waits for a waiter that leaves the line
// from behind others.
func (w *writer) urgent(ops []*operation) bool {
	return slices.ContainsFunc(ops, func(op *operation) bool {
		return op.urgent && !(op.leaves && w.parsed != nil && w.parsed.behindOthers(op.id))
	})
}

// knows reports whether the parties of all operations are in the document.
func (w *writer) knows(ops []*operation) bool {
	return w.parsed != nil && !slices.ContainsFunc(ops, func(op *operation) bool { return !w.parsed.has(op.id) })
}

// leaving returns for how many round trips operations pause at most, if all of them are of waiters that leave and nobody waits
// for them: as many as half of the waiters, who may leave at the same time, for longestLeave at most. Otherwise it returns 0.
func (w *writer) leaving(ops []*operation) int {
	if w.parsed == nil || slices.ContainsFunc(ops, func(op *operation) bool { return !op.leaves }) {
		return 0
	}
	return min(len(w.parsed.state.Waiters)/2, int(longestLeave/w.pace()))
}

// pause lets others go first after a conflict, by a random time of up to some round trips.
func (w *writer) pause(trips int) {
	w.rest(rand.N(w.pace()*time.Duration(trips) + 1))
}

// pace is the time of a round trip on which pauses depend. The latest one may have been slow by chance.
func (w *writer) pace() time.Duration {
	return min(max(time.Duration(w.trip.Load()), shortestTrip), longestTrip)
}

// rest waits, or until an operation comes.
func (w *writer) rest(d time.Duration) {
	select {
	case <-w.arrived:
	case <-time.After(d):
	}
}

// instant is a time at which operations are applied.
type instant struct {
	// now is at most the time of the store's clock, so that no lease ends early, or it
	// is the time of this machine's clock if the store has none.
	now queue.Time
	// pad is by how much the store's clock may be ahead of now. Every lease lasts so much
	// longer in the document: its holder counts the TTL from when it sent the request.
	pad queue.Time
	// local is the same instant on this machine's monotonic clock.
	local time.Time
}

// instant returns the present one.
func (e *Engine) instant(ctx context.Context) (instant, error) {
	if !e.timed {
		local := time.Now()
		return instant{now: local.UnixMicro(), local: local}, nil
	}
	local := time.Now()
	early, late, ok := e.clock.at(local)
	if !ok {
		if _, err := e.Now(ctx); err != nil {
			return instant{}, err
		}
		local = time.Now()
		early, late, _ = e.clock.at(local)
	}
	return instant{now: early.UnixMicro(), pad: translate.Micros(late.Sub(early)) + 1, local: local}, nil
}

// heldFor reports whether a change that the store made at a time of its clock was made by
// the time that was estimated for it. Otherwise leases may end before their TTL is over:
// a clock was set, or this machine was suspended.
func (t instant) heldFor(at time.Time) bool {
	return t.local.IsZero() || at.UnixMicro() <= t.now+t.pad+translate.Micros(fast(time.Since(t.local)))+1
}

// messages are those for the parties that the operations changed.
func messages(prefix string, was *document, ops []*operation, now queue.Time) []Message {
	var all []Message
	for _, op := range ops {
		if op.proposed != nil && op.answer.Status == queue.Queued && !was.has(op.id) {
			all = append(all, messageOf(prefix, engine.Wakeup{Kind: engine.Resync, ID: op.id}, now))
		}
		if op.broken != "" && op.answer.Status == queue.Done {
			all = append(all, messageOf(prefix, engine.Wakeup{Kind: engine.WakeBroken, ID: op.broken, Reason: op.reason}, now))
		}
		for _, w := range translate.Wakeups(op.answer) {
			all = append(all, messageOf(prefix, w, now))
		}
	}
	return all
}
