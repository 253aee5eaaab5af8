package virtual

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// turnLog collects the leases that callers of one process hand off to each other, and those of which little was left
// when their caller got them.
type turnLog struct {
	mu     sync.Mutex
	handed map[localTurn]bool
	short  []shortTurn
}

// shortTurn is a lease with little of its trust window.
type shortTurn struct {
	localTurn
	at, left, least time.Duration
}

// handedOff notes a turn that ended with a hand-off in the process.
func (l *turnLog) handedOff(t localTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handed == nil {
		l.handed = map[localTurn]bool{}
	}
	l.handed[t] = true
}

// requireWindow reports a violation if a caller gets a lease whose trust window has closed. A pause may have come after the
// client looked at it.
func (w *simulation) requireWindow(p *process, s Step, h workload.Hold) {
	left := time.Until(h.Until())
	if p.stopped() || !p.alive() || p.heldNow("acquire.after-check", "acquire.before-return") {
		return
	}
	if left <= 0 {
		w.violated("notified", s.Name, "%s was given a lease whose trust window had closed at %v", p.name, h.Until())
	}
	least := min(s.TTL/4, time.Second)
	if s.mutex() && left <= least && !p.heldNow("handoff.after-check", "handoff.turn-taken", "acquire.before-check") {
		w.turns.mu.Lock()
		defer w.turns.mu.Unlock()
		w.turns.short = append(w.turns.short, shortTurn{localTurn{p.name, s.Name, h.Token()}, w.rec.Now(), left, least})
	}
}

// shortTurns finds leases that were handed off although no more than a quarter of the TTL, or a second, of the trust window
// was left.
func (w *simulation) shortTurns() (found []check.Violation) {
	w.turns.mu.Lock()
	defer w.turns.mu.Unlock()
	for _, t := range w.turns.short {
		if w.turns.handed[localTurn{t.client, t.resource, t.token - 1}] {
			found = append(found, check.Violation{Check: "short", Resource: t.resource, At: t.at,
				Text: fmt.Sprintf("%s handed off a lease to its own next caller with %v of the trust window; more than %v is promised", t.client, t.left, t.least)})
		}
	}
	return found
}
