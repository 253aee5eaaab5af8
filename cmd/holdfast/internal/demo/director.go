package demo

import (
	"errors"
	"syscall"
	"time"
)

const (
	warmUp    = 10 // sales before each of the faults
	passedOut = 5  // sales by others before the paused node is resumed
)

// director injects the two faults of the last act, each at an exact point: the
// node holds the lease, has read the stock and has not written it.
type director struct {
	stage  *stage
	step   step
	victim *nodeProcess
	token  uint64 // of the victim's lease
	at     time.Time
	sales  int // counted within the present step
}

// step is how far the faults are.
type step uint8

const (
	beforeKill step = iota
	killing         // the victim was asked to stop in mid-work
	killed          // it was killed there; its lease must run out
	beforePause
	pausing
	paused  // it was stopped there; its lease runs out and others go on
	resumed // it was resumed and must be refused
	complete
)

func newDirector(s *stage) *director { return &director{stage: s} }

// observe takes a report of a node and moves to the next step if it is the one awaited.
func (d *director) observe(h nodeReport) error {
	if h.Kind == sold {
		d.sales++
	}
	mine := h.from == d.victim
	switch d.step {
	case beforeKill, beforePause:
		if h.Kind == sold && d.sales >= warmUp {
			return d.trap()
		}
	case killing:
		if h.Kind == midWork && mine {
			return d.kill(h)
		}
	case killed:
		if h.Kind == granted && h.Token > d.token {
			d.stage.Takeover = time.Since(d.at)
			d.say("%s got the lease %s after the kill, when its TTL of %s had run out", h.from.name, seconds(d.stage.Takeover), seconds(ttl))
			d.next(beforePause)
		}
	case pausing:
		if h.Kind == midWork && mine {
			return d.pause(h)
		}
	case paused:
		if h.Kind == sold && h.Token > d.token && d.sales >= passedOut {
			return d.resume()
		}
	case resumed:
		if h.Kind == refused && mine && h.Token == d.token {
			d.stage.Knew = h.Lost
			d.say("%s wrote late; refused: its token %d is below %d, which the stock has seen", h.from.name, h.Token, h.Above)
			d.next(complete)
		}
	}
	return nil
}

// trap asks the next victim to stop in the middle of its next sale.
func (d *director) trap() error {
	d.victim = d.stage.nodes.members[nodesEach] // the first node of the second service
	d.next(killing)
	if d.stage.Takeover > 0 {
		d.victim = d.stage.nodes.members[2*nodesEach] // the first of the third
		d.next(pausing)
	}
	return d.victim.send(lineTrap)
}

func (d *director) kill(h nodeReport) error {
	d.token = h.Token
	d.say("%s holds the lease and is in mid-work: kill -9", h.from.name)
	d.next(killed)
	return d.victim.signal(syscall.SIGKILL)
}

func (d *director) pause(h nodeReport) error {
	d.token = h.Token
	d.say("%s holds the lease and is in mid-work: stopped (SIGSTOP)", h.from.name)
	d.next(paused)
	return d.victim.signal(syscall.SIGSTOP)
}

func (d *director) resume() error {
	d.stage.Paused = time.Since(d.at)
	d.say("%s is resumed after %s; others have sold %d units meanwhile", d.victim.name, seconds(d.stage.Paused), d.sales)
	d.next(resumed)
	return errors.Join(d.victim.send(lineGoOn), d.victim.signal(syscall.SIGCONT))
}

func (d *director) next(s step) { d.step, d.sales, d.at = s, 0, time.Now() }

// complete returns an error if a fault was not played.
func (d *director) complete() error {
	switch d.step {
	case complete, resumed: // after resumed the refusal is a claim, see claims
		return nil
	}
	return errors.New("the stock was sold out before both faults were played")
}

func (d *director) say(format string, args ...any) {
	d.stage.screen.note(time.Since(d.stage.began), format, args...)
}
