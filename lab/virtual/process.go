package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// process is one simulated process with one client. It calls gate before every action that
// others can observe.
type process struct {
	w      *simulation
	name   string
	links  []*link
	client *holdfast.Client
	worker *workload.Worker
	shut   func()         // closes the engine's connections
	rounds sync.WaitGroup // of the steps of the program

	ballots requests // of a quorum

	mu      sync.Mutex
	pauses  int
	resume  chan struct{} // made while paused, closed when it continues
	resumed time.Time     // when it continued last
	dead    bool
	stops   []*stop
	heldAt  map[string]time.Time // when goroutines that a pause had held at a point continued, last
	unwatch []func()             // end the calls of reached
}

// gate blocks while the process is paused. It returns ErrDead if the process is dead.
func (p *process) gate() error {
	for {
		p.mu.Lock()
		dead, resume := p.dead, p.resume
		p.mu.Unlock()
		if dead {
			return workload.ErrDead
		}
		if resume == nil {
			return nil
		}
		p.w.hit(Pause)
		<-resume
	}
}

// step implements workload.Worker.Step.
func (p *process) step(context.Context, string) error { return p.gate() }

// pause stops the process for a while. Pauses may overlap.
func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	p.freeze()
	p.mu.Unlock()
	<-time.After(d)
	p.thaw()
}

// freeze begins a pause. The mutex is held.
func (p *process) freeze() {
	p.pauses++
	if p.resume == nil {
		p.resume = make(chan struct{})
	}
}

// thaw ends a pause.
func (p *process) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses--; p.pauses == 0 && p.resume != nil {
		close(p.resume)
		p.resume, p.resumed = nil, time.Now()
	}
}

// kill ends the process at once. The client is closed afterwards only for its goroutines:
// none of its requests can leave the process any more.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	if p.resume != nil {
		close(p.resume)
		p.resume = nil
	}
	p.mu.Unlock()
	for _, l := range p.links {
		l.sever()
	}
	_ = p.client.Close() // only so that its goroutines end
	p.shut()
	p.forget()
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// stopped reports whether the process is paused.
func (p *process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses > 0
}
