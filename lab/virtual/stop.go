package virtual

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// stop is a step that waits for the process to come to a point.
type stop struct {
	point string
	left  int           // visits of the point
	begun chan struct{} // closed when the process is paused
}

// stops adds steps that pause a process at a point, mostly before a round of it. A pause is often about as long as a TTL
// of the program.
func (d drawer) stops(p *Program, points []string) {
	points = slices.DeleteFunc(slices.Clone(points), func(name string) bool { return !p.World.reaches(name) })
	var rounds []int
	for i, s := range p.Steps {
		if s.Do == Round {
			rounds = append(rounds, i)
		}
	}
	if len(points) == 0 || len(rounds) == 0 {
		return
	}
	for range 1 + d.IntN(6) {
		at := drawn(d, rounds...)
		round := p.Steps[at]
		s := Step{
			Do: Stop, Process: round.Process, Point: drawn(d, points...), Nth: drawn(d, 1, 1, 1, 2, 3, 1+d.IntN(10)),
			For: drawn(d, d.upTo(50*time.Millisecond), d.upTo(round.TTL), round.TTL*3/4+d.upTo(round.TTL/2), round.TTL*3/4+d.upTo(round.TTL/4)),
			// A lease that is held for long, or for which another is waited for, comes to its last points late.
			Delay: drawn(d, d.upTo(time.Second), d.upTo(10*time.Second), 10*time.Second+d.upTo(10*time.Second)),
			Sleep: drawn(d, 0, 0, 0, d.upTo(50*time.Millisecond)),
		}
		steps := []Step{s}
		if strings.HasPrefix(s.Point, "handoff.") && round.mutex() {
			steps = append(steps, d.callers(round)...)
		}
		p.Steps = slices.Insert(p.Steps, at, steps...)
		for i := range rounds {
			if rounds[i] >= at {
				rounds[i] += len(steps)
			}
		}
	}
}

// callers draws rounds of one process that hand off a lease to each other.
func (d drawer) callers(round Step) (all []Step) {
	round.Way, round.Wait, round.Sleep = Plain, time.Second+d.upTo(7*time.Second), 0
	for range 2 + d.IntN(5) {
		round.Hold = drawn(d, 0, time.Millisecond, d.upTo(4*time.Millisecond))
		all = append(all, round)
	}
	return all
}

// reaches reports whether processes in the world can come to a point.
func (w World) reaches(point string) bool {
	switch {
	case strings.HasPrefix(point, "quorum."):
		return w == Quorum
	case strings.HasPrefix(point, "linger."), point == "timer.linger":
		return w.recalls()
	case point == "acquire.before-accept": // a quorum pushes no grants
		return w != Quorum
	}
	return true
}

// missing returns a point of the program that a build does not have, or "".
func (p Program) missing(points []string) string {
	for _, s := range p.Steps {
		if s.Do == Stop && !slices.Contains(points, s.Point) {
			return s.Point
		}
	}
	return ""
}

// watch makes the process reach the points of its client.
func (p *process) watch(e engine.Engine) {
	p.unwatch = append(p.unwatch, pausepoint.Watch(e, p.reached))
	if q, ok := e.(*promptQuorum); ok { // its own points have the engine inside
		p.unwatch = append(p.unwatch, pausepoint.Watch(q.Engine, p.reached))
	}
}

// forget ends watch.
func (p *process) forget() {
	for _, end := range p.unwatch {
		end()
	}
}

// stopAt waits until the process comes to the point of a step, and pauses it there. It reports whether it came there.
func (p *process) stopAt(s Step) (stopped bool) {
	x := &stop{point: s.Point, left: s.Nth, begun: make(chan struct{})}
	p.mu.Lock()
	p.stops = append(p.stops, x)
	p.mu.Unlock()
	select {
	case <-x.begun:
	case <-time.After(s.Delay):
	}
	p.mu.Lock()
	p.stops = slices.DeleteFunc(p.stops, func(o *stop) bool { return o == x })
	never := x.left > 0
	p.mu.Unlock()
	if never {
		return false
	}
	p.w.stopped.count(s.Point)
	<-time.After(s.For)
	p.thaw()
	return true
}

// reached is called at each point, in the goroutine that has come there. It returns when the process is not paused,
// whether it was paused here or before.
func (p *process) reached(point string) {
	p.mu.Lock()
	for _, x := range p.stops {
		if x.point == point && x.left > 0 && !p.dead {
			if x.left--; x.left == 0 {
				p.freeze()
				close(x.begun)
			}
		}
	}
	held := p.resume != nil
	p.mu.Unlock()
	_ = p.gate() // nothing that a dead process does leaves it
	if held {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.heldAt == nil {
			p.heldAt = map[string]time.Time{}
		}
		p.heldAt[point] = time.Now()
	}
}

// stopLog counts the pauses at points, by point.
type stopLog struct {
	mu sync.Mutex
	at map[string]int
}

func (l *stopLog) count(point string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[string]int{}
	}
	l.at[point]++
}

// neverStopped lists the points at which no process was paused in a number of programs, of which one should.
func (s Summary) neverStopped(world World) (points []string) {
	for _, name := range pausepoint.Names() {
		if s.Played >= manyForFaults && world.reaches(name) && s.Stopped[name] == 0 {
			points = append(points, name)
		}
	}
	return points
}

// heldNow reports whether a pause that ended at this instant had held a goroutine at one of some points.
func (p *process) heldNow(points ...string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(points, func(point string) bool { return p.heldAt[point].Equal(time.Now()) })
}

// justResumed reports whether the process was paused from before an instant until now.
func (p *process) justResumed(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses > 0 || p.resumed.Equal(time.Now()) && !p.resumed.Before(since)
}
