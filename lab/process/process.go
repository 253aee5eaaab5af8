package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Process is a client process. It serves one client at a time.
type Process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	gone chan struct{} // closed when the process has ended and its output is read

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan report
	holds   map[uint64]*hold
	early   map[uint64]bool // losses that came before the answer of their acquire
	point   subject.Point
	renewed func(subject.Renewal)
}

// Start runs this very program again as a client process. The caller must call
// Kill or Stop.
func Start() (*Process, error) {
	cmd, in, out, err := redistest.StartSelf(os.Stderr, Env+"=1")
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, in: in, gone: make(chan struct{}), waiting: map[uint64]chan report{}, holds: map[uint64]*hold{}, early: map[uint64]bool{}}
	go p.read(out)
	return p, nil
}

// read takes in what the process says, until its end.
func (p *Process) read(out io.Reader) {
	defer close(p.gone)
	ReadLines(out, p.take)
	_, _ = io.Copy(io.Discard, out)
	_ = p.cmd.Wait() // the calls without an answer show how it ended
}

func (p *Process) take(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Point != "":
		go p.reach(p.point, r)
	case r.Lost:
		if h := p.holds[r.ID]; h != nil {
			h.lose()
		} else {
			p.early[r.ID] = true
		}
	case r.Renewed != nil:
		if p.renewed != nil {
			p.renewed(*r.Renewed)
		}
	default:
		if wait := p.waiting[r.ID]; wait != nil {
			delete(p.waiting, r.ID)
			wait <- r
		}
	}
}

// reach calls the point of the lab and lets the process continue.
func (p *Process) reach(point subject.Point, r report) {
	var err error
	if point != nil {
		err = point(context.Background(), r.Point)
	}
	_ = p.write(order{ID: r.ID, Call: callGo, Err: send(err)}) // it may be dead
}

func (p *Process) write(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(b, '\n'))
	return err
}

// Open makes the client of the spec, in place of one made before. Point and
// Renewed may be nil.
func (p *Process) Open(ctx context.Context, spec Spec, point subject.Point, renewed func(subject.Renewal)) (subject.Client, error) {
	p.mu.Lock()
	p.point, p.renewed, p.holds, p.early = point, renewed, map[uint64]*hold{}, map[uint64]bool{}
	p.mu.Unlock()
	spec.Points = point != nil
	r, err := p.call(ctx, order{Call: callOpen, Spec: &spec})
	if err = errors.Join(err, r.Err.receive()); err != nil {
		return nil, err
	}
	return &client{p}, nil
}

// call sends an order and waits for its answer. If ctx ends, call sends that to
// the process and still waits for the answer, unless the process is dead or stopped.
func (p *Process) call(ctx context.Context, o order) (report, error) {
	wait := make(chan report, 1)
	p.mu.Lock()
	p.last++
	o.ID = p.last
	p.waiting[o.ID] = wait
	p.mu.Unlock()
	if err := p.write(o); err != nil {
		return report{}, fmt.Errorf("%w: %w", subject.ErrDead, err)
	}
	var expired <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case r := <-wait:
			r.ID = o.ID
			return r, nil
		case <-p.gone:
			return report{}, fmt.Errorf("%w: the process has ended", subject.ErrDead)
		case <-done:
			done = nil
			_ = p.write(order{ID: o.ID, Call: callCancel}) // then p.gone is closed
			timer := time.NewTimer(grace)
			defer timer.Stop()
			expired = timer.C
		case <-expired:
			return report{}, context.Cause(ctx)
		}
	}
}

// grace is how long the answer of a cancelled call may take.
const grace = 2 * time.Second

// CanStep reports whether the wall clock of a client process can be stepped on this
// system: so far on Linux on amd64.
func CanStep() bool { return canStep }

// Step sets the wall clock of the process forward by d, in whole seconds; back if
// d is negative. Nothing else on the machine sees it. The Spec of its client must
// say that it Steps.
func (p *Process) Step(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	r, err := p.call(ctx, order{Call: callStep, By: d})
	return errors.Join(err, r.Err.receive())
}

// Kill ends the process by SIGKILL and waits until it is gone.
func (p *Process) Kill() error {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.gone
	_ = p.in.Close() // broken by now, or closed
	return nil
}

// Stop ends a process in peace: its client is closed first.
func (p *Process) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_, _ = p.call(ctx, order{Call: callClose})
	_ = p.in.Close()
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return p.Kill()
	}
}

// Alive reports whether the process can be used again.
func (p *Process) Alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Pause stops the process with SIGSTOP.
func (p *Process) Pause() error { return redistest.Pause(p.cmd.Process) }

// Resume lets a stopped process go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
