package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// process is one program with one client. Everything that others can see of it
// goes through its gate.
type process struct {
	w      *simulation
	name   string
	links  []*link
	client *holdfast.Client
	worker *workload.Worker
	shut   func() // ends what the engine has of its own

	mu     sync.Mutex
	pauses int
	resume chan struct{} // made while paused, closed when it goes on
	dead   bool
}

// gate returns when the process runs; it returns ErrDead if it is dead.
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
		<-resume
	}
}

// step is the gate for workloads. A process that goes on after a pause runs its
// timers late: they are given their turn before the next line.
func (p *process) step(context.Context, string) error { return p.gate() }

// pause stops the process for a while. Pauses may overlap.
func (p *process) pause(d time.Duration) {
	p.mu.Lock()
	p.pauses++
	if p.resume == nil {
		p.resume = make(chan struct{})
	}
	p.mu.Unlock()
	<-time.After(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses--; p.pauses == 0 && p.resume != nil {
		close(p.resume)
		p.resume = nil
	}
}

// kill ends the process where it stands. Closing its client afterwards is no part
// of it: nothing that the client does can leave the process any more.
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
}

func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

// stopped reports whether the process stands still.
func (p *process) stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses > 0
}
