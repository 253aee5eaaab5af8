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
	// Any other is late by a quarter of its wait, and 250 ms at most. While the line moves, it is
	// late by half of the time until its turn, if that is less.
	otherShare   = 4
	otherLongest = 250 * time.Millisecond
	// leastShare is the least share of the messages that counts as moving a line.
	leastShare = 1e-3
	// idlePause is the pause while nobody waits: a message may be an operator's break.
	idlePause = time.Second
	// paceLife is how long a pause is used before it is computed anew.
	paceLife = 20 * time.Millisecond
)

// pace decides how long to pause, by who waits and by how many messages there are: a hand-off to another
// process is a message, so a line moves by one for some share of all messages.
type pace struct {
	mu      sync.Mutex
	waits   map[string]awaited // by holder ID
	highest int64              // the number of the latest message
	share   float64            // of the messages that move a line
	pause   time.Duration
	decided time.Time     // when pause was computed
	sooner  chan struct{} // has an element after pause became shorter
}

// awaited is what is known of a waiter.
type awaited struct {
	ahead   int       // waiters, by the latest answer
	since   time.Time // when it came, or became the first
	poll    time.Time // when that answer came
	counts  bool      // from is known
	from    int64     // the latest message when that answer came
	reached time.Time // since when it seems to be the first
}

func newPace() *pace {
	return &pace{waits: make(map[string]awaited), share: 1, pause: idlePause, sooner: make(chan struct{}, 1)}
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
	if known && w.ahead > 0 && w.counts && p.highest > w.from {
		moved := float64(w.ahead-ahead) / float64(p.highest-w.from)
		p.share = max(leastShare, (p.share+max(0, min(1, moved)))/2)
	}
	if !known || ahead == 0 && w.ahead > 0 {
		w.since = now
	}
	w.ahead, w.poll, w.counts, w.reached = ahead, now, false, time.Time{}
	p.waits[id] = w
	if pause := p.of(id, w, now); pause < p.pause {
		p.pause = pause
		select {
		case p.sooner <- struct{}{}:
		default:
		}
	}
}

// looked takes the number of the latest message.
func (p *pace) looked(highest int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest != highest {
		p.highest, p.decided = highest, time.Time{}
	}
	for id, w := range p.waits {
		if !w.counts || highest < w.from {
			w.counts, w.from = true, highest
			p.waits[id] = w
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
		p.pause = min(p.pause, p.of(id, w, now))
	}
	return p.pause
}

// of returns the pause for one waiter.
func (p *pace) of(id string, w awaited, now time.Time) time.Duration {
	if w.ahead == 0 {
		return firstPause(now.Sub(w.since))
	}
	pause := max(shortest, min(otherLongest, now.Sub(w.since)/otherShare))
	moved := 0.0
	if w.counts {
		moved = p.share * float64(p.highest-w.from)
	}
	left := float64(w.ahead) - moved
	switch {
	case moved == 0:
		return pause
	case left > 0:
		turn := float64(now.Sub(w.poll)) / moved
		return max(shortest, time.Duration(min(float64(pause), turn*left/2)))
	}
	if w.reached.IsZero() {
		w.reached = now
		p.waits[id] = w
	}
	return firstPause(now.Sub(w.reached))
}

func firstPause(waited time.Duration) time.Duration {
	return max(shortest, min(firstLongest, waited/firstShare))
}
