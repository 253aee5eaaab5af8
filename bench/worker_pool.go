package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// workerPool is the worker processes, which run this program.
type workerPool struct {
	board     *board
	path      string
	processes []*workerProcess
}

type workerProcess struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end func()
}

func newWorkerPool() (*workerPool, error) {
	b, path, err := newBoard()
	return &workerPool{board: b, path: path}, err
}

// worker returns worker i. It starts the worker if it does not run.
func (p *workerPool) worker(i int) (*workerProcess, error) {
	for len(p.processes) <= i {
		p.processes = append(p.processes, nil)
	}
	if p.processes[i] == nil {
		m, err := startWorker(p.path)
		if err != nil {
			return nil, err
		}
		p.processes[i] = m
	}
	return p.processes[i], nil
}

func startWorker(board string) (*workerProcess, error) {
	cmd, in, out, err := redistest.StartSelf(os.Stderr, workerBoard+"="+board)
	if err != nil {
		return nil, err
	}
	return &workerProcess{cmd, json.NewEncoder(in), json.NewDecoder(out), func() { _ = in.Close() }}, nil
}

// kill kills a worker and waits for its end. The next use of index i starts another.
func (p *workerPool) kill(i int) {
	m := p.processes[i]
	_ = m.cmd.Process.Kill()
	m.end()
	_ = m.cmd.Wait() // it was killed
	p.processes[i] = nil
}

// killAll kills all workers, after a slice has failed in some of them.
func (p *workerPool) killAll() {
	for i, m := range p.processes {
		if m != nil {
			p.kill(i)
		}
	}
}

// restart ends a worker, so that the next use of index i starts another. So the garbage
// and goroutines of one contender do not slow down the next.
func (p *workerPool) restart(i int) {
	if i < len(p.processes) && p.processes[i] != nil {
		p.processes[i].end()
		_ = p.processes[i].cmd.Wait() // its reports have been read
		p.processes[i] = nil
	}
}

// close ends all workers.
func (p *workerPool) close() {
	for i := range p.processes {
		p.restart(i)
	}
	_ = os.RemoveAll(filepath.Dir(p.path))
}

// prepare sends jobs to the workers from index first on, and returns when all are ready.
func (p *workerPool) prepare(first int, jobs []job) error {
	for i := range jobs {
		m, err := p.worker(first + i)
		if err != nil {
			return err
		}
		if err := m.in.Encode(order{Job: &jobs[i]}); err != nil {
			return err
		}
	}
	var errs []error
	for _, m := range p.processes[first : first+len(jobs)] {
		if a, err := m.await(); err != nil {
			errs = append(errs, err)
		} else if !a.Ready {
			errs = append(errs, errors.New("a worker sent neither readiness nor an error"))
		}
	}
	return errors.Join(errs...)
}

// open sends the window to n workers from index first on.
func (p *workerPool) open(first, n int, w window) error {
	for _, m := range p.processes[first : first+n] {
		if err := m.in.Encode(order{Window: &w}); err != nil {
			return err
		}
	}
	return nil
}

// reports waits for the reports of n workers from index first on.
func (p *workerPool) reports(first, n int) ([]*report, error) {
	var all []*report
	var errs []error
	for _, m := range p.processes[first : first+n] {
		a, err := m.await()
		if err == nil && a.Report == nil {
			err = errors.New("a worker sent no report")
		}
		errs = append(errs, err)
		all = append(all, a.Report)
	}
	return all, errors.Join(errs...)
}

// run lets one worker run at once, and waits for its report.
func (p *workerPool) run(i int) (*report, error) {
	if err := p.open(i, 1, windowIn(0, 0)); err != nil {
		return nil, err
	}
	all, err := p.reports(i, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// answerTimeout is longer than any window, and longer than any contender needs to open
// and close a thousand clients.
const answerTimeout = 2 * time.Minute

// await waits for an answer. A worker that hangs prints its stacks and exits.
func (m *workerProcess) await() (answer, error) {
	var a answer
	hung := time.AfterFunc(answerTimeout, func() { _ = m.cmd.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	if err := m.out.Decode(&a); err != nil {
		return a, fmt.Errorf("worker: %w", err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("worker: %s", a.Err)
	}
	return a, nil
}

// windowIn returns a window that starts after ramp. During the ramp the workers receive
// the window and the callers start.
func windowIn(ramp, length time.Duration) window {
	from := time.Now().Add(ramp)
	return window{From: from, Until: from.Add(length)}
}
