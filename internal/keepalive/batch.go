package keepalive

import (
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// batchSize bounds one call of the engine, so that a slow batch does not hold
// up the others for long.
const batchSize = 512

// batch is leases of one TTL that are due at one time: first since they were added
// at about the same time, then since one call renewed them. The heap is of batches,
// so that the cost of a lease does not grow with their number.
type batch struct {
	key     batchKey
	due     time.Duration // the first event of any of them
	entries []*Entry
	index   int32 // in the heap; -1 outside
	open    bool  // entries with its key may be added; it may be empty
	state   batchState
}

// batchState is idle, ready, sending, and idle again.
type batchState uint8

const (
	batchIdle    batchState = iota // its renewal is not due
	batchReady                     // it is in a sendQueue
	batchSending                   // its renewal is under way
)

// batchKey is what the entries of a batch have in common.
type batchKey struct {
	ttl   time.Duration
	first First
}

// slack is how much before its time a lease is renewed if a call for others has room:
// a twentieth of the interval, so that leases of many TTLs, or acquired one after the
// other, need few calls.
func slack(ttl time.Duration) time.Duration { return ttl / 60 }

// renews reports whether the batch is renewed when it is due; else only its windows
// are watched.
func (b *batch) renews() bool { return b.state == batchIdle && b.key.first != Never }

func (b *batch) add(e *Entry) {
	e.batch, e.at = b, int32(len(b.entries))
	b.entries = append(b.entries, e)
}

// drop removes an entry; the last one takes its place.
func (b *batch) drop(e *Entry) {
	last := len(b.entries) - 1
	moved := b.entries[last]
	b.entries[e.at], moved.at = moved, e.at
	b.entries[last], e.batch = nil, nil
	b.entries = b.entries[:last]
}

// take moves all entries of another batch here.
func (b *batch) merge(other *batch) {
	for _, e := range other.entries {
		b.add(e)
	}
	other.entries = nil
}

// place puts an entry into the open batch of its key if that is due a little earlier,
// else into a new batch, and arms the timer.
func (s *Scheduler) place(e *Entry, first First, due time.Duration, now Moment) {
	due = min(due, e.closes(now, s.troubled))
	of := batchKey{e.TTL, first}
	b := s.recent // usually all have one TTL
	if b == nil || !b.open || b.key != of {
		b = s.open[of]
	}
	switch {
	case b != nil && len(b.entries) == 0:
		b.due = due
		heap.Fix(&s.heap, int(b.index))
	case b == nil || due < b.due || due > b.due+slack(e.TTL) || len(b.entries) == batchSize:
		if b != nil {
			b.open = false
		}
		b = &batch{key: of, due: due, open: true}
		s.open[of] = b
		heap.Push(&s.heap, b)
	}
	s.recent = b
	b.add(e)
	s.arm()
}

// mostOpen bounds the empty batches, for a program that has ever new TTLs.
const maxOpen = 16

// remove takes an entry out of its batch, if it is in one. An open batch is kept though
// it is empty, for a program that locks and unlocks in a loop.
func (s *Scheduler) remove(e *Entry) {
	b := e.batch
	if b == nil {
		return
	}
	s.drop(e)
	if len(b.entries) > 0 || b.index < 0 || b.open && len(s.open) <= maxOpen {
		return
	}
	if b.open {
		s.close(b)
	}
	heap.Remove(&s.heap, int(b.index))
}

// close makes a batch accept no more entries.
func (s *Scheduler) close(b *batch) {
	b.open = false
	delete(s.open, b.key)
}

// drop takes an entry out of its batch and no longer counts its failed renewal.
func (s *Scheduler) drop(e *Entry) {
	if e.last != nil {
		s.troubled--
	}
	e.batch.drop(e)
}

// closing removes the entries whose windows close, and returns when the next one
// does. So many entries were in trouble when the first of those that close now was removed.
func (s *Scheduler) closing(b *batch, now Moment, troubled int, lost []loss) (next time.Duration, _ []loss) {
	next = never
	for i := 0; i < len(b.entries); {
		e := b.entries[i]
		closes := e.closes(now, troubled)
		if closes <= now.Mono {
			trouble := e.trouble()
			s.drop(e) // another is at i now
			e.last = trouble
			lost = append(lost, loss{keeper: e.Keeper, last: trouble})
			continue
		}
		next = min(next, closes)
		i++
	}
	return next, lost
}

// loss is a lost lease, and why: the store's answer, or the error of the last renewal
// before the window closed.
type loss struct {
	keeper Keeper
	cause  *engine.NotHeldError
	last   error
}

// batches is a heap by due time.
type batches []*batch

func (h batches) Len() int           { return len(h) }
func (h batches) Less(i, j int) bool { return h[i].due < h[j].due }
func (h batches) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = int32(i), int32(j) }
func (h *batches) Push(x any)        { b := x.(*batch); b.index = int32(len(*h)); *h = append(*h, b) }
func (h *batches) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	b.index = -1
	return b
}
