// Package tenure is the queue of waiters inside one process.
//
// Of all callers in a process that want one resource, only the first calls the
// store; it has the turn. The others wait in a Line, and each hands the turn off to
// the next, first come first served: with a live lease (without a round trip) or with
// a place in the store's queue.
//
// A run of local hand-offs under one store lease is a tenure. Slice bounds it, so
// that other processes get their share.
package tenure

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a slice. A process yields the resource to others after MaxHandOffs,
// or when all callers that waited at the grant have had a turn and Quantum has
// passed, or after MaxSpan, whichever is first. So a slice has many short turns, which
// pays for the change of process, or one long turn, which makes the shares of processes
// equal by turns and not by time.
//
// If no other process waits, as repeated grants at once show, a slice may have more
// hand-offs, up to MaxAlone. If a call of the store takes as long as many of them, it may have up to MaxSlow, and
// Quantum does not end it; see Longer.
const (
	MaxHandOffs = 64
	MaxAlone    = 4 * MaxHandOffs
	MaxSlow     = 16 * MaxAlone
	Quantum     = time.Millisecond
	MaxSpan     = 10 * time.Millisecond
)

// callsInSlice is how many calls of the store a slice of more than MaxAlone hand-offs lasts for.
const callsInSlice = 4

// Slice counts what is left of a tenure. The zero Slice is over. Instants are
// given as what has passed since a fixed one.
type Slice struct {
	start time.Duration
	left  int32 // hand-offs
	round int32 // hand-offs until all that waited at the start had one
}

// NewSlice starts a tenure of at most most hand-offs, at the moment of the store's
// grant, when waiting callers are in the line.
func NewSlice(now time.Duration, waiting, most int) Slice {
	if most > MaxAlone {
		waiting = most
	}
	return Slice{start: now, left: int32(most), round: int32(waiting)}
}

// Take counts one hand-off and reports whether the tenure allows it.
func (s *Slice) Take(now time.Duration) bool {
	passed := now - s.start
	if s.left <= 0 || passed >= MaxSpan || s.round <= 0 && passed >= Quantum {
		return false
	}
	s.left--
	s.round--
	return true
}

// Longer returns the hand-offs of the slice that follows this one, which had some hand-offs and used so many of them, if no
// other process waits: twice as many if all were used, within the limits. A slice uses a token for each hand-off, and tokens follow
// the store's clock in microseconds, so it has no more of them than have passed since the request of the last grant
// was sent, or MaxHandOffs.
func (s *Slice) Longer(had, used int, now, sent time.Duration) int {
	lasted, call := max(now-s.start, 1), max(s.start-sent, 0)                   // negative if the lease was renewed since
	fit := time.Duration(used) * callsInSlice * min(call, time.Second) / lasted // hand-offs that last as long as some calls
	most := min(max(MaxAlone, int(min(fit, MaxSlow))), int((lasted + call).Microseconds()))
	if used == had {
		used = 2 * had
	}
	return max(MaxHandOffs, min(used, most))
}

// Lines holds the lines of a client, by key. Only keys in use take memory.
type Lines[K comparable, T any] struct {
	mu     sync.Mutex
	lines  map[K]*Line[K, T]
	parked atomic.Int32 // number of turns that are parked; changed under the mutex
}

// Line is the queue of one key. It exists as long as a caller has the turn, or the turn is
// parked.
type Line[K comparable, T any] struct {
	key     K
	queue   *list.List   // of *Caller; empty while the turn is parked, and nil until the first waits
	waiting atomic.Int32 // its length; changed under the mutex
	parked  *T
}

// Caller is a place in a line.
type Caller[T any] struct {
	// Turn receives the turn, once.
	Turn <-chan T

	turn   chan T        // of capacity 1
	queued *list.Element // nil once the turn is sent
}

// Join enters the line of a key. If the turn is free or parked, it begins at once and the
// Caller is nil; else the Caller receives the turn. parked is the turn that was parked, or nil.
func (ls *Lines[K, T]) Join(key K) (l *Line[K, T], w *Caller[T], parked *T) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, parked = ls.begin(key)
	if l != nil {
		return l, nil, parked
	}
	l = ls.lines[key]
	turn := make(chan T, 1)
	w = &Caller[T]{Turn: turn, turn: turn}
	if l.queue == nil {
		l.queue = list.New()
	}
	w.queued = l.queue.PushBack(w)
	l.waiting.Add(1)
	return l, w, nil
}

// TryJoin takes the turn of a key if it is free or parked; else the line is nil.
func (ls *Lines[K, T]) TryJoin(key K) (l *Line[K, T], parked *T) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.begin(key)
}

// begin takes the turn of a key, if it can be taken.
func (ls *Lines[K, T]) begin(key K) (l *Line[K, T], parked *T) {
	l = ls.lines[key]
	switch {
	case l == nil:
		l = &Line[K, T]{key: key}
		if ls.lines == nil {
			ls.lines = make(map[K]*Line[K, T])
		}
		ls.lines[key] = l
		return l, nil
	case l.parked != nil:
		parked = l.parked
		ls.unpark(l)
		return l, parked
	}
	return nil, nil
}

// Park leaves the turn in the line for the next caller, who takes it at once. It returns false if
// a Caller waits: then the turn stays.
func (ls *Lines[K, T]) Park(l *Line[K, T], turn *T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.Waiting() > 0 {
		return false
	}
	l.parked = turn
	ls.parked.Add(1)
	return true
}

// Unpark takes back a turn that is still parked. If it returns true, the turn must be handed off.
func (ls *Lines[K, T]) Unpark(l *Line[K, T], turn *T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.parked != turn {
		return false
	}
	ls.unpark(l)
	return true
}

func (ls *Lines[K, T]) unpark(l *Line[K, T]) {
	l.parked = nil
	ls.parked.Add(-1)
}

// Parked returns the number of turns that are parked. It may change at any time.
func (ls *Lines[K, T]) Parked() int { return int(ls.parked.Load()) }

// Cancel ends a wait. If the turn had been sent already, it returns the turn and true,
// and the turn must be handed off. The Caller must not be used after that.
func (ls *Lines[K, T]) Cancel(l *Line[K, T], w *Caller[T]) (turn T, got bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queued == nil {
		return <-w.turn, true
	}
	l.remove(w)
	return turn, false
}

// Waiting returns the number of Callers in the line. It may change at any time.
func (l *Line[K, T]) Waiting() int { return int(l.waiting.Load()) }

// TryHandOff hands the turn off to the first Caller. If there is none, it returns false
// and the turn stays.
func (ls *Lines[K, T]) TryHandOff(l *Line[K, T], turn T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.handOff(turn)
}

// HandOff hands the turn off to the first Caller. If there is none, it ends the line and
// returns false.
func (ls *Lines[K, T]) HandOff(l *Line[K, T], turn T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.handOff(turn) {
		return true
	}
	delete(ls.lines, l.key)
	return false
}

// Share sends a turn to every Caller and ends the line, so that none of them owns its turn. It
// returns their number.
func (ls *Lines[K, T]) Share(l *Line[K, T], turn T) (n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l.handOff(turn) {
		n++
	}
	delete(ls.lines, l.key)
	return n
}

// handOff serves the front, so no Caller is overtaken.
func (l *Line[K, T]) handOff(turn T) bool {
	if l.Waiting() == 0 {
		return false
	}
	w := l.queue.Front().Value.(*Caller[T])
	l.remove(w)
	w.turn <- turn // it has room: a Caller is sent one turn
	return true
}

func (l *Line[K, T]) remove(w *Caller[T]) {
	l.queue.Remove(w.queued)
	w.queued = nil
	l.waiting.Add(-1)
}
