package goredis

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// clearer continues after a script that has cleared its portion: it makes one call for each
// further portion, so that calls of other clients run in between. It runs in the background,
// for one resource at a time. A waiter's poll clears a portion as well, so a clearer that
// fails costs a waiter one poll at most.
type clearer struct {
	mu    sync.Mutex
	line  []script.Keys
	known map[string]bool // the cores in line
	done  <-chan struct{} // closed when the current run has ended; nil: there is none
	runs  int             // calls made so far
}

// clearRest splits a reply, and queues the resource if its script has left something to be
// cleared.
func (e *Engine) clearRest(keys script.Keys, value any) any {
	reply, more := script.More(value)
	if more {
		e.queueClear(keys)
	}
	return reply
}

func (e *Engine) queueClear(keys script.Keys) {
	t := &e.clearer
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[keys.Core()] {
		return
	}
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	t.line, t.known[keys.Core()] = append(t.line, keys), true
	if t.done == nil {
		t.done = e.aside(func(ctx context.Context) { t.run(ctx, e) })
	}
}

func (t *clearer) run(ctx context.Context, e *Engine) {
	rdb := e.own.client()
	for {
		t.mu.Lock()
		if len(t.line) == 0 || ctx.Err() != nil {
			t.line, t.known, t.done = nil, nil, nil
			t.mu.Unlock()
			return
		}
		keys := t.line[0]
		t.line = t.line[1:]
		delete(t.known, keys.Core()) // what is left from now on may be too late for these calls
		t.mu.Unlock()
		for more := true; more && ctx.Err() == nil; {
			value, err := process(ctx, rdb, e.scripts.Clear(keys))
			if err != nil {
				break
			}
			t.mu.Lock()
			t.runs++
			t.mu.Unlock()
			_, more = script.More(value)
		}
	}
}
