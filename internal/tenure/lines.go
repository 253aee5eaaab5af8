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
	"container/list"
	"sync"
	"time"
)

// Limits of a slice. A process yields the resource to others after MaxHandOffs,
// or once everybody who waited at the grant has had a turn and Quantum has
// passed, or after MaxSpan, whichever is first. So short turns are many, which
// pays for the change of process, and long ones are one each, which makes the
// shares of processes equal by turns and not by time.
const (
	MaxHandOffs = 64
	Quantum     = time.Millisecond
	MaxSpan     = 10 * time.Millisecond
)

// Slice counts what is left of a tenure. The zero Slice is over.
type Slice struct {
	handOffs int
	round    int // hand-offs until everybody who waited at the start had one
	start    time.Time
}

// NewSlice starts a tenure at the moment of the store's grant, when so many wait
// in the line.
func NewSlice(now time.Time, waiting int) Slice { return Slice{start: now, round: waiting} }

// Take counts one hand-off and tells whether the tenure still allows it.
func (s *Slice) Take(now time.Time) bool {
	passed := now.Sub(s.start)
	if s.handOffs >= MaxHandOffs || passed >= MaxSpan || s.handOffs >= s.round && passed >= Quantum {
		return false
	}
	s.handOffs++
	return true
}

// Lines holds the lines of a client, by key. Only keys in use take memory.
type Lines[K comparable, T any] struct {
	mu    sync.Mutex
	lines map[K]*Line[K, T]
}

// Line is the queue of one key. Somebody has the turn as long as it exists.
type Line[K comparable, T any] struct {
	key     K
	waiters list.List // of *Waiter[T]
}

// Waiter is a place in a line.
type Waiter[T any] struct {
	// Turn receives the turn, once.
	Turn <-chan T

	turn chan T
	elem *list.Element // nil once the turn was sent or the wait was given up
}

// Join enters the line of a key. If nobody was there, the caller has the turn at
// once and the waiter is nil; else the turn comes over Waiter.Turn.
func (ls *Lines[K, T]) Join(key K) (*Line[K, T], *Waiter[T]) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[key]; l != nil {
		w := &Waiter[T]{turn: make(chan T, 1)}
		w.Turn = w.turn
		w.elem = l.waiters.PushBack(w)
		return l, w
	}
	return ls.open(key), nil
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
// true: the caller has the turn and must pass it on.
func (ls *Lines[K, T]) Cancel(l *Line[K, T], w *Waiter[T]) (turn T, got bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.elem != nil {
		l.waiters.Remove(w.elem)
		w.elem = nil
		return turn, false
	}
	return <-w.turn, true
}

// Waiting counts those who wait.
func (ls *Lines[K, T]) Waiting(l *Line[K, T]) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return l.waiters.Len()
}

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
	front := l.waiters.Front()
	if front == nil {
		return false
	}
	w := l.waiters.Remove(front).(*Waiter[T])
	w.elem = nil
	w.turn <- turn
	return true
}
