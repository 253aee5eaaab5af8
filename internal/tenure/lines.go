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
// hand-offs, up to MaxAlone.
const (
	MaxHandOffs = 64
	MaxAlone    = 4 * MaxHandOffs
	Quantum     = time.Millisecond
	MaxSpan     = 10 * time.Millisecond
)

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

// Lines holds the lines of a client, by key. Only keys in use take memory.
type Lines[K comparable, T any] struct {
	mu    sync.Mutex
	lines map[K]*Line[K, T]
	spare *Caller[T] // a free list
	kept  int        // length of the free list
}

// maxSpare bounds the free list: more than wait at a time in most programs, and little
// memory.
const maxSpare = 256

// Line is the queue of one key. It exists as long as a caller has the turn.
type Line[K comparable, T any] struct {
	key         K
	front, back *Caller[T]
	waiting     atomic.Int32 // changed under the mutex
}

// Caller is a place in a line.
type Caller[T any] struct {
	// Ready receives once when the turn has come; Lines.Accept then returns it.
	Ready <-chan struct{}

	ready      chan struct{}
	turn       T
	queued     bool // it is in the line
	prev, next *Caller[T]
}

// Join enters the line of a key. If the line was empty, the turn begins at once and the
// Caller is nil; else the Caller receives the turn.
func (ls *Lines[K, T]) Join(key K) (*Line[K, T], *Caller[T]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		return ls.open(key), nil
	}
	w := ls.caller()
	w.queued, w.prev = true, l.back
	if l.back != nil {
		l.back.next = w
	} else {
		l.front = w
	}
	l.back = w
	l.waiting.Add(1)
	return l, w
}

// caller returns one of the free list or a new one.
func (ls *Lines[K, T]) caller() *Caller[T] {
	if w := ls.spare; w != nil {
		ls.spare, w.next = w.next, nil
		ls.kept--
		return w
	}
	ready := make(chan struct{}, 1)
	return &Caller[T]{Ready: ready, ready: ready}
}

// recycle puts a Caller that is not used any more into the free list.
func (ls *Lines[K, T]) recycle(w *Caller[T]) {
	if ls.kept == maxSpare {
		return
	}
	var none T
	w.turn, w.next = none, ls.spare
	ls.spare = w
	ls.kept++
}

// Accept returns the turn of a Caller, after Ready. The Caller must not be used after
// that.
func (ls *Lines[K, T]) Accept(w *Caller[T]) T {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	turn := w.turn
	ls.recycle(w)
	return turn
}

// TryJoin takes the turn of a key if it is free; else it returns nil.
func (ls *Lines[K, T]) TryJoin(key K) *Line[K, T] {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.lines[key] != nil {
		return nil
	}
	return ls.open(key)
}

func (ls *Lines[K, T]) open(key K) *Line[K, T] {
	l := &Line[K, T]{key: key}
	if ls.lines == nil {
		ls.lines = make(map[K]*Line[K, T])
	}
	ls.lines[key] = l
	return l
}

// Cancel ends a wait. If the turn had been sent already, it returns the turn and true,
// and the turn must be handed off. The Caller must not be used after that.
func (ls *Lines[K, T]) Cancel(l *Line[K, T], w *Caller[T]) (turn T, got bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queued {
		l.remove(w)
	} else {
		<-w.ready
		turn, got = w.turn, true
	}
	ls.recycle(w)
	return turn, got
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

// handOff serves the front, so no Caller is overtaken.
func (l *Line[K, T]) handOff(turn T) bool {
	w := l.front
	if w == nil {
		return false
	}
	l.remove(w)
	w.turn = turn
	w.ready <- struct{}{} // it has room: a Caller is sent one turn
	return true
}

func (l *Line[K, T]) remove(w *Caller[T]) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.front = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.back = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	l.waiting.Add(-1)
}
