package redistest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Process is the process of a server over its restarts, for this package and those of other stores. Its methods
// may be called from any goroutine. A method that fails fails Test, or panics if Test is nil.
type Process struct {
	Test testing.TB

	mu  sync.Mutex
	run Run // nil before the first start and after Kill
}

// Run is one run of a server: a Child, or what pauses and kills its children too.
type Run interface {
	PID() int
	Pause() error
	Resume() error
	Kill()
}

// PID returns the process ID, or 0 if the server is killed.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.PID()
}

// Pause stops the server with SIGSTOP: it keeps its connections and answers nothing. When Pause returns the
// process has stopped.
func (p *Process) Pause() { p.act("pause", Run.Pause) }

// Resume continues a paused server.
func (p *Process) Resume() { p.act("resume", Run.Resume) }

func (p *Process) act(what string, f func(Run) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		p.fatal("%s: the server is killed", what)
		return
	}
	if err := f(p.run); err != nil {
		p.fatal("%s: %v", what, err)
	}
}

// Kill ends the server with SIGKILL and waits for its end. If the server is dead, Kill does nothing.
func (p *Process) Kill() { p.End(Run.Kill) }

// End is Kill by another way.
func (p *Process) End(end func(Run)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		end(p.run)
		p.run = nil
	}
}

// Start kills the server if it runs, and starts it.
func (p *Process) Start(start func() (Run, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		p.run.Kill()
	}
	var err error
	if p.run, err = start(); err != nil {
		p.run = nil // start may have returned a nil *Child
	}
	return err
}

// Restart is Start on the port that the server had. Another process may have it for a moment, such as one that looks
// for free ports.
func (p *Process) Restart(start func() (Run, error)) {
	deadline := time.Now().Add(startTimeout)
	err := p.Start(start)
	for errors.Is(err, ErrPortTaken) && time.Now().Before(deadline) {
		err = p.Start(start)
	}
	if err != nil {
		p.fatal("restart: %v", err)
	}
}

func (p *Process) fatal(format string, args ...any) {
	if p.Test == nil {
		panic(fmt.Sprintf(format, args...))
	}
	p.Test.Helper()
	p.Test.Fatalf(format, args...)
}

// StartAll calls start for 0 to n-1 at once, and returns the errors when all have returned. The last call is made by the
// caller's goroutine, so a single server inherits what was set for its thread, such as its CPUs.
func StartAll(n int, start func(i int) error) error {
	errs := make([]error, n)
	var others sync.WaitGroup
	for i := range n - 1 {
		others.Go(func() { errs[i] = start(i) })
	}
	errs[n-1] = start(n - 1)
	others.Wait()
	return errors.Join(errs...)
}

// OnFreePorts calls start with n free ports, and again with others if a server ended while it started: another process
// may have taken its port, which not every server logs.
func OnFreePorts(n int, start func(ports []int) error) error {
	const tries = 5
	for try := 1; ; try++ {
		ports, err := FreePorts(n)
		if err != nil {
			return err
		}
		if err = start(ports); try == tries || !errors.Is(err, ErrEnded) && !errors.Is(err, ErrPortTaken) {
			return err
		}
	}
}
