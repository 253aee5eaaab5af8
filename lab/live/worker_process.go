package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/process"
)

// workerProcess is a worker, from the side of the lab. It is a fault.Process.
type workerProcess struct {
	name string
	run  *run
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended and its output is read

	write sync.Mutex
	in    io.WriteCloser

	mu   sync.Mutex
	done map[string]chan report
	died time.Duration         // when it was killed; 0: it was not
	runs map[string]history.Op // that have begun, by resource

	silent []time.Duration // of the nodes, while the client closed; see watchSilences
}

// startWorker starts a worker, which is this very program.
func (r *run) startWorker(name string) (*workerProcess, error) {
	cmd, in, out, err := redistest.StartSelf(&r.stderr, env+"=1")
	if err != nil {
		return nil, fmt.Errorf("start worker %s: %w", name, err)
	}
	c := &workerProcess{name: name, run: r, cmd: cmd, in: in, gone: make(chan struct{}), done: map[string]chan report{}, runs: map[string]history.Op{}}
	go c.read(out)
	return c, nil
}

// read handles the reports of the worker, until its end.
func (c *workerProcess) read(out io.Reader) {
	defer close(c.gone)
	var points sync.WaitGroup
	process.ReadLines(out, func(r report) {
		if r.Point != "" { // a fault may take its time
			points.Go(func() { c.point(r) })
			return
		}
		c.handle(r)
	})
	_, _ = io.Copy(io.Discard, out)
	_ = c.cmd.Wait() // the reports that are missing show how it ended
	points.Wait()
}

func (c *workerProcess) handle(r report) {
	switch {
	case r.Op != nil:
		if r.Op.Kind == history.Run {
			c.mu.Lock()
			delete(c.runs, r.Op.Resource)
			c.mu.Unlock()
		}
		c.run.rec.Add(*r.Op)
	case r.Begun != nil:
		c.mu.Lock()
		c.runs[r.Begun.Resource] = *r.Begun
		c.mu.Unlock()
	case r.Access != nil:
		op, err := c.run.vault.Access(context.Background(), *r.Access)
		c.reply(r.ID, &op, err)
	case r.Stall != nil:
		c.run.stall(Stall{c.name, r.Kind, r.Stall.From, r.Stall.To})
	case r.Excuse != nil:
		c.run.excuse(excuse{c.name, r.Name, r.Trouble, r.Excuse.From, r.Excuse.To})
	case r.Trouble != "":
		c.run.violated(r.Check, r.Name, "%s", r.Trouble)
	case r.Did != "":
		c.mu.Lock()
		c.silent = r.Silent
		if wait := c.done[r.Did]; wait != nil {
			wait <- r
		}
		c.mu.Unlock()
	}
}

// point reaches a point of the schedule. A dead worker needs no reply. One that stops itself is stopped before its
// pause begins, and continues also if the faults have ended meanwhile.
func (c *workerProcess) point(r report) {
	if r.Stops {
		_ = redistest.AwaitStopped(c.cmd.Process) // it may have been killed
		defer func() { _ = c.Resume() }()
	}
	_ = c.run.inj.Point(context.Background(), c.name, r.Point)
	c.reply(r.ID, nil, nil)
}

func (c *workerProcess) reply(id uint64, op *history.Op, err error) {
	o := order{Do: orderReply, ID: id, Op: op}
	if err != nil {
		o.Err = err.Error()
	}
	_ = c.send(o) // it may be dead
}

func (c *workerProcess) send(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	_, err = c.in.Write(append(line, '\n'))
	return err
}

// order sends an order and waits until it is done. It returns at once if the worker is
// killed.
func (c *workerProcess) order(ctx context.Context, o order) error {
	wait := make(chan report, 1)
	c.mu.Lock()
	c.done[o.Do] = wait
	c.mu.Unlock()
	_ = c.send(o) // if it is dead, gone is closed
	select {
	case r := <-wait:
		if r.Err != "" {
			return errors.New(r.Err)
		}
		return nil
	case <-c.gone:
		if c.deadSince() == 0 {
			return fmt.Errorf("worker %s died by itself: %s", c.name, c.run.stderr.String())
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker %s does not %s: %w", c.name, o.Do, context.Cause(ctx))
	}
}

func (c *workerProcess) deadSince() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.died
}

// Kill ends the worker by SIGKILL; it is gone when Kill returns. Its reports
// until then are read to the end.
func (c *workerProcess) Kill() error {
	c.mu.Lock()
	first := c.died == 0
	c.mu.Unlock()
	if !first {
		return nil
	}
	err := c.cmd.Process.Kill()
	c.mu.Lock()
	c.died = c.run.rec.Now()
	c.mu.Unlock()
	return err
}

// Pause stops the worker with SIGSTOP; it has stopped when Pause returns.
func (c *workerProcess) Pause() error { return redistest.Pause(c.cmd.Process) }

// Resume continues a stopped worker.
func (c *workerProcess) Resume() error { return c.cmd.Process.Signal(syscall.SIGCONT) }

// Step sets the worker's wall clock forward by d. A stopped worker does it
// when it continues, so Step does not wait for it.
func (c *workerProcess) Step(d time.Duration) error { return c.send(order{Do: orderStep, By: d}) }

// Exhaust makes the worker use all connections of its pools, when it is not stopped.
func (c *workerProcess) Exhaust() error { return c.send(order{Do: orderTake}) }

// Relieve ends that. A dead worker has no connections.
func (c *workerProcess) Relieve() error {
	_ = c.send(order{Do: orderFree})
	return nil
}

// stop ends the worker if it still runs, and its pipes.
func (c *workerProcess) stop() {
	_ = c.cmd.Process.Kill() // it may have ended
	_ = c.in.Close()
	<-c.gone
}

// died is the Note of a Leave by the death of a worker.
const died = "dead"

// deathOps returns the operations of a worker's death: the end of its stays, releases
// that it may have sent, and its unfinished runs.
func (c *workerProcess) deathOps(ops []history.Op) (out []history.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.died == 0 {
		return nil
	}
	left, released := map[string]history.Op{}, map[string]bool{}
	for _, op := range ops {
		switch {
		case op.Client != c.name:
		case op.Kind == history.Acquire && op.Outcome == history.OK:
			op.Kind, op.Call, op.Return, op.Until, op.Note = history.Leave, c.died, c.died, 0, died
			out = append(out, op)
		case op.Kind == history.Leave || op.Kind == history.Lost:
			left[op.Holder] = op
		case op.Kind == history.Release:
			released[op.Holder] = true
		}
	}
	for holder, op := range left { // it records a release when it is answered
		if !released[holder] {
			op.Kind, op.Outcome = history.Release, history.Unknown
			out = append(out, op)
		}
	}
	for _, op := range c.runs {
		op.Return, op.Outcome = c.died, history.Failed
		out = append(out, op)
	}
	return out
}
