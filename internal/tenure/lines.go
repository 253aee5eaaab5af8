// Package tenure is the queue of waiters inside one process.
//
// Of all callers in a process that want one resource, only the first deals with
// the store; it has the turn. The others wait in a Line, and the turn passes
// from one to the next, first come first served: with a live lease (a local
// hand-off, without a round trip) or with a place in the store's queue.
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
// or once everybody who waited at the grant has had a turn and Quantum has
// passed, or after MaxSpan, whichever is first. So short turns are many, which
// pays for the change of process, and long ones are one each, which makes the
// shares of processes equal by turns and not by time.
//
// A process that is alone, since the store granted the lease again and again at
// once, may take more hand-offs a slice, up to MaxAlone.
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
	round int32 // hand-offs until everybody who waited at the start had one
}

// NewSlice starts a tenure of so many hand-offs at most, at the moment of the
// store's grant, when so many wait in the line.
func NewSlice(now time.Duration, waiting, most int) Slice {
	return Slice{start: now, left: int32(most), round: int32(waiting)}
}

// Take counts one hand-off and tells whether the tenure still allows it.
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
	spare *Waiter[T] // those that have had their turn, to be used again
	kept  int        // so many are spare
}

// maxSpare is how many waiters are kept for use: more than wait at a time in
// most programs, and little memory.
const maxSpare = 256

// Line is the queue of one key. Somebody has the turn as long as it exists.
type Line[K comparable, T any] struct {
	key         K
	front, back *Waiter[T]
	waiting     atomic.Int32 // changed under the mutex
}

// Waiter is a place in a line.
type Waiter[T any] struct {
	// Ready receives once when the turn has come; Lines.Accept then returns it.
	Ready <-chan struct{}

	ready      chan struct{}
	turn       T
	queued     bool // it stands in the line
	prev, next *Waiter[T]
}

// Join enters the line of a key. If nobody was there, the caller has the turn at
// once and the waiter is nil; else the turn comes to the waiter.
func (ls *Lines[K, T]) Join(key K) (*Line[K, T], *Waiter[T]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[key]
	if l == nil {
		return ls.open(key), nil
	}
	w := ls.waiter()
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

// waiter returns a spare waiter or a new one.
func (ls *Lines[K, T]) waiter() *Waiter[T] {
	if w := ls.spare; w != nil {
		ls.spare, w.next = w.next, nil
		ls.kept--
		return w
	}
	ready := make(chan struct{}, 1)
	return &Waiter[T]{Ready: ready, ready: ready}
}

// drop makes a waiter spare that nobody uses any more.
func (ls *Lines[K, T]) drop(w *Waiter[T]) {
	if ls.kept == maxSpare {
		return
	}
	var none T
	w.turn, w.next = none, ls.spare
	ls.spare = w
	ls.kept++
}

// Accept returns the turn of a waiter, after Ready. The waiter must not be used
// after that.
func (ls *Lines[K, T]) Accept(w *Waiter[T]) T {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	turn := w.turn
	ls.drop(w)
	return turn
}

// TryJoin takes the turn of a key if nobody has it; else it returns nil.
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

// Cancel gives up a wait. If the turn had been sent already, it returns it with
// true: the caller has the turn and must pass it on. The waiter must not be used
// after that.
func (ls *Lines[K, T]) Cancel(l *Line[K, T], w *Waiter[T]) (turn T, got bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.queued {
		l.remove(w)
	} else {
		<-w.ready
		turn, got = w.turn, true
	}
	ls.drop(w)
	return turn, got
}

// Waiting counts those who wait. Others may join and leave meanwhile.
func (l *Line[K, T]) Waiting() int { return int(l.waiting.Load()) }

// TryPass gives the turn to the first waiter. Without one it returns false and
// the caller keeps the turn.
func (ls *Lines[K, T]) TryPass(l *Line[K, T], turn T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.pass(turn)
}

// Pass gives the turn away for good: to the first waiter, or, with nobody
// waiting, by ending the line; then it returns false.
func (ls *Lines[K, T]) Pass(l *Line[K, T], turn T) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.pass(turn) {
		return true
	}
	delete(ls.lines, l.key)
	return false
}

// pass serves the front: nobody in the line is passed over.
func (l *Line[K, T]) pass(turn T) bool {
	w := l.front
	if w == nil {
		return false
	}
	l.remove(w)
	w.turn = turn
	w.ready <- struct{}{} // it has room: a waiter is told once
	return true
}

func (l *Line[K, T]) remove(w *Waiter[T]) {
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
