package demo

import (
	"errors"
	"syscall"
	"time"
)

const (
	warmUp    = 10 // sales before each fault
	passedOut = 5  // sales by others while a node is paused
)

// faultInjector injects the two faults of the last act, each at an exact point: the
// node holds the lease, has read the stock and has not written it.
type faultInjector struct {
	stage  *stage
	step   step
	victim *nodeProcess
	token  uint64    // of the victim's lease
	at     time.Time // of the latest step
	sales  int       // since the latest step
}

// step is the state of a faultInjector.
type step uint8

const (
	beforeKill step = iota
	killing         // the victim is to stop between reading and writing
	killed          // the victim was killed there; its lease must expire
	beforePause
	pausing
	paused  // the victim was stopped there; its lease expires and others sell
	resumed // the victim was resumed; its write must be refused
	complete
)

func newFaultInjector(s *stage) *faultInjector { return &faultInjector{stage: s} }

// observe receives a report of a node, and goes on to the next step if it waits for this report.
func (f *faultInjector) observe(h nodeReport) error {
	if h.Kind == sold {
		f.sales++
	}
	mine := h.from == f.victim
	switch f.step {
	case beforeKill, beforePause:
		if h.Kind == sold && f.sales >= warmUp {
			return f.trap()
		}
	case killing:
		if h.Kind == midWork && mine {
			return f.kill(h)
		}
	case killed:
		if h.Kind == granted && h.Token > f.token {
			f.stage.Takeover = time.Since(f.at)
			f.say("%s got the lease %s after the kill, when its TTL of %s had run out", h.from.name, seconds(f.stage.Takeover), seconds(ttl))
			f.next(beforePause)
		}
	case pausing:
		if h.Kind == midWork && mine {
			return f.pause(h)
		}
	case paused:
		if h.Kind == sold && h.Token > f.token && f.sales >= passedOut {
			return f.resume()
		}
	case resumed:
		if h.Kind == refused && mine && h.Token == f.token {
			f.stage.Knew = h.Lost
			f.say("%s wrote late; refused: its token %d is below %d, which the stock has seen", h.from.name, h.Token, h.Above)
			f.next(complete)
		}
	}
	return nil
}

// trap makes the next victim stop between reading and writing in its next sale.
func (f *faultInjector) trap() error {
	f.victim = f.stage.nodes.members[nodesEach] // the first node of the second service
	f.next(killing)
	if f.stage.Takeover > 0 {
		f.victim = f.stage.nodes.members[2*nodesEach] // the first of the third
		f.next(pausing)
	}
	return f.victim.send(lineTrap)
}

func (f *faultInjector) kill(h nodeReport) error {
	f.token = h.Token
	f.say("%s holds the lease and is in mid-work: kill -9", h.from.name)
	f.next(killed)
	return f.victim.signal(syscall.SIGKILL)
}

func (f *faultInjector) pause(h nodeReport) error {
	f.token = h.Token
	f.say("%s holds the lease and is in mid-work: stopped (SIGSTOP)", h.from.name)
	f.next(paused)
	return f.victim.signal(syscall.SIGSTOP)
}

func (f *faultInjector) resume() error {
	f.stage.Paused = time.Since(f.at)
	f.say("%s is resumed after %s; others have sold %d units meanwhile", f.victim.name, seconds(f.stage.Paused), f.sales)
	f.next(resumed)
	return errors.Join(f.victim.send(lineGoOn), f.victim.signal(syscall.SIGCONT))
}

func (f *faultInjector) next(s step) { f.step, f.sales, f.at = s, 0, time.Now() }

// complete returns an error if a fault has not happened.
func (f *faultInjector) complete() error {
	switch f.step {
	case complete, resumed: // Claims reports whether the write was refused
		return nil
	}
	return errors.New("the stock was sold out before both faults were played")
}

func (f *faultInjector) say(format string, args ...any) {
	f.stage.screen.note(time.Since(f.stage.began), format, args...)
}
