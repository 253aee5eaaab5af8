package main

import (
	"context"
	"time"
)

// ring is a client whose callers pass a turn on in a circle, on a store that has no queue of its
// own. It is not a lock: if a member dies, the turn is lost.
type ring interface {
	// member returns the lock of caller i of n, in all processes.
	member(resource string, i, n int) lock
}

// polledRing is a ring on a store that notifies nobody: members look, as often as waiters of
// Holdfast's engines on such stores do.
type polledRing struct {
	add  func(ctx context.Context, resource string) error // with turn 0
	turn func(ctx context.Context, resource string) (int, error)
	next func(ctx context.Context, resource string) error
	end  func()
}

func (p polledRing) provide(ctx context.Context, resource string) error { return p.add(ctx, resource) }
func (p polledRing) lock(resource string) lock                          { return p.member(resource, 0, 1) }
func (p polledRing) close()                                             { p.end() }

func (p polledRing) member(resource string, i, n int) lock {
	return calls{
		lock: func(ctx context.Context) error {
			since := time.Now()
			for {
				turn, err := p.turn(ctx, resource)
				if err != nil {
					return err
				}
				ahead := (i - turn%n + n) % n
				if ahead == 0 {
					return nil
				}
				pause(ctx, lookAgain(ahead == 1, time.Since(since)))
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		},
		unlock: func(ctx context.Context) error { return p.next(ctx, resource) },
	}
}

// lookAgain returns the pause between two looks, as in engine/internal/sqltable.
func lookAgain(first bool, waited time.Duration) time.Duration {
	const shortest = 5 * time.Millisecond
	if first {
		return max(shortest, min(25*time.Millisecond, waited/100))
	}
	return max(shortest, min(250*time.Millisecond, waited/4))
}
