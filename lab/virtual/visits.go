package virtual

import (
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// visitInterval is from the start of one short-lived process to that of the next.
const visitInterval = time.Second

// visits runs the short-lived processes of a step, one after the other.
func (w *simulation) visits(s Step) {
	for began := time.Now(); time.Since(began) < s.For; <-time.After(visitInterval) {
		w.visit(s)
	}
}

// visit runs a process that tries once, works if it is granted the lease, and ends. It reports whether it was
// granted.
func (w *simulation) visit(s Step) (granted bool) {
	w.hit(Visits)
	w.changes.Lock()
	p, err := w.start(w.p.Processes)
	w.changes.Unlock()
	if err != nil {
		w.violated("errors", s.Name, "a process that only tries: %v", err)
		return false
	}
	var killer sync.WaitGroup
	ended := make(chan struct{})
	if s.Delay > 0 {
		killer.Go(func() {
			select {
			case <-time.After(s.Delay):
				began := w.rec.Now()
				p.kill()
				w.happened(p, Step{Do: Crash}, began)
			case <-ended:
			}
		})
	}
	err = w.round(p, s)
	close(ended)
	killer.Wait()
	w.end(p)
	return !errors.Is(err, holdfast.ErrNotAcquired)
}

// end lets a process end by itself.
func (w *simulation) end(p *process) {
	if !p.alive() {
		return
	}
	began := w.rec.Now()
	w.called(p, "", began, p.client.Close())
	p.kill()
}

const (
	// visitsPerLease is for how many TTLs a lease of a dead process may be found held by processes that
	// only try: they see it for the first time, and then for its TTL.
	visitsPerLease = 2
	// visitsPerWaiter is how long each waiter that died costs them: its claim window, the same again for those who
	// see it late, and their intervals.
	visitsPerWaiter = 10 * time.Second
)

// recheckByVisits acquires everything that was ever used by processes that only try, once nobody else works.
func (w *simulation) recheckByVisits() {
	limit := visitsPerLease*longestTTL + w.freeFor()
	for _, s := range w.p.Steps {
		if s.Do == Round {
			limit += visitsPerWaiter
		}
	}
	var all sync.WaitGroup
	for _, s := range w.lastRounds() {
		if s.Lock == Job || s.Lock == Retry || s.Lock == Election {
			continue
		}
		s.Do, s.Way, s.Wait, s.Hold, s.TTL, s.Delay, s.Weight = Visits, Try, recheckTimeout, 20*time.Millisecond, time.Second, 0, 2
		if s.Lock == Semaphore {
			s.Weight = semaphoreCapacity
		}
		all.Go(func() {
			for began := time.Now(); !w.visit(s); <-time.After(visitInterval) {
				if time.Since(began) > limit {
					w.violated("deadlock", s.Name, "processes that only try are refused %v after all was well again", time.Since(began))
					return
				}
			}
		})
	}
	all.Wait()
}
