package live

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// stopAtPoints adds pauses that begin when a worker comes to a point of its client, in a build that has some. The
// worker stops itself there, so that the goroutine at the point is among the first to run when it continues.
func stopAtPoints(p *Program, points []string) {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x73746f7073))}
	others, err := p.schedule()
	if len(points) == 0 || !p.holdfast() || err != nil || runtime.GOOS != "linux" {
		return // the run reports the error
	}
	for range 1 + d.IntN(3) {
		f := fault.Fault{Kind: fault.Pause, Target: d.worker(p),
			For: drawn(d, d.between(p.TTL/4, p.TTL), d.between(p.TTL*3/4, p.TTL*3/2), d.between(p.TTL, 3*p.TTL))}
		f.At = fault.When{Who: f.Target, Point: drawn(d, points...), Nth: 1 + d.IntN(4)}
		if !clash(others, fault.Schedule{f}) {
			others = append(others, f)
			p.Faults = append(p.Faults, f.String())
		}
	}
}

// atPoint reports whether a fault begins at a point of a client.
func atPoint(f fault.Fault) bool { return slices.Contains(pausepoint.Names(), f.At.Point) }

// stops stops this process at points of its client. The zero stops does nothing.
type stops struct {
	mu     sync.Mutex
	at     map[string][]int // visits of a point, from 1
	visits map[string]int
	send   func(report)
}

func (s *stops) begin(at map[string][]int, send func(report)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.visits, s.send = at, map[string]int{}, send
}

// end ends it. A stop that was sent still happens.
func (s *stops) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = nil
}

// reached is called at each point. The visits are reported in their order, since the lab counts them too.
func (s *stops) reached(point string) {
	if s.report(point) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // the process may always
	}
}

// report reports a visit, if a stop is at it or at a later one, and returns whether it is at this one.
func (s *stops) report(point string) (now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at[point]
	if len(at) == 0 || s.visits[point] >= slices.Max(at) {
		return false
	}
	s.visits[point]++
	now = slices.Contains(at, s.visits[point])
	s.send(report{Point: point, Stops: now})
	return now
}
