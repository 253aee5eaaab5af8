package goredis

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// tidier goes on where a script has used up what it may clear up: with a call for each
// portion, so that other clients have their turns in between. One runs at a time, and
// nobody waits for it. Whoever waits for the resource does the same by asking again, so
// one that does not get to its end costs nobody more than a poll.
type tidier struct {
	mu    sync.Mutex
	line  []script.Keys
	known map[string]bool // cores in the line
	done  <-chan struct{} // closed when the present run has ended; nil: there is none
	runs  int             // calls made so far
}

// tidy takes a reply apart, and sees to what its script has left.
func (e *Engine) tidy(keys script.Keys, value any) any {
	reply, more := script.More(value)
	if more {
		e.tidyUp(keys)
	}
	return reply
}

func (e *Engine) tidyUp(keys script.Keys) {
	t := &e.tidier
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

func (t *tidier) run(ctx context.Context, e *Engine) {
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
		t.mu.Unlock()
		for more := true; more && ctx.Err() == nil; {
			value, err := process(ctx, rdb, e.scripts.Tidy(keys))
			if err != nil {
				break
			}
			t.mu.Lock()
			t.runs++
			t.mu.Unlock()
			_, more = script.More(value)
		}
		t.mu.Lock()
		delete(t.known, keys.Core())
		t.mu.Unlock()
	}
}
