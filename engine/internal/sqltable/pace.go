package sqltable

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// The pause between two looks at the table of messages. A message comes late by a share of the time
// that its receiver has waited: soonest in the beginning, so that brief waits in turn stay brief.
const (
	shortest = 5 * time.Millisecond
	// A waiter that is first in line is late by 1 % of its wait, and 25 ms at most.
	firstShare   = 100
	firstLongest = 25 * time.Millisecond
	// Any other is late by a quarter of its wait, and 250 ms at most.
	otherShare   = 4
	otherLongest = 250 * time.Millisecond
	// idlePause is the pause while nobody waits: a message may be an operator's break.
	idlePause = time.Second
	// paceLife is how long a pause is used before it is computed anew.
	paceLife = 20 * time.Millisecond
)

// pace decides how long to pause, by who waits.
type pace struct {
	mu      sync.Mutex
	waits   map[string]awaited // by holder ID
	pause   time.Duration
	decided time.Time     // when pause was computed
	sooner  chan struct{} // has an element after pause became shorter
}

// awaited is what is known of a waiter.
type awaited struct {
	first bool
	since time.Time // when it came, or became the first
	poll  time.Time
}

func newPace() *pace {
	return &pace{waits: make(map[string]awaited), pause: idlePause, sooner: make(chan struct{}, 1)}
}

// note takes the answer to a waiter; see cas.PacedStore.
func (p *pace) note(id string, ahead int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if ahead < 0 {
		delete(p.waits, id)
		return
	}
	w, known := p.waits[id]
	first := ahead == 0
	if !known || first && !w.first {
		w.since = now
	}
	w.first, w.poll = first, now
	p.waits[id] = w
	if pause := w.pause(now); pause < p.pause {
		p.pause = pause
		select {
		case p.sooner <- struct{}{}:
		default:
		}
	}
}

// next returns the pause before the next look.
func (p *pace) next() time.Duration {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.decided) < paceLife {
		return p.pause
	}
	p.pause, p.decided = idlePause, now
	for id, w := range p.waits {
		if now.Sub(w.poll) > engine.WaiterLife {
			delete(p.waits, id)
			continue
		}
		p.pause = min(p.pause, w.pause(now))
	}
	return p.pause
}

func (w awaited) pause(now time.Time) time.Duration {
	if w.first {
		return max(shortest, min(firstLongest, now.Sub(w.since)/firstShare))
	}
	return max(shortest, min(otherLongest, now.Sub(w.since)/otherShare))
}
