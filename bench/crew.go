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
)

// crew is the worker processes: this program, started again.
type crew struct {
	board   *board
	path    string
	members []*member
}

type member struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end func()
}

func newCrew() (*crew, error) {
	b, path, err := newBoard()
	return &crew{board: b, path: path}, err
}

// member returns worker i and starts it if need be.
func (c *crew) member(i int) (*member, error) {
	for len(c.members) <= i {
		c.members = append(c.members, nil)
	}
	if c.members[i] == nil {
		m, err := hire(c.path)
		if err != nil {
			return nil, err
		}
		c.members[i] = m
	}
	return c.members[i], nil
}

func hire(board string) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerBoard+"="+board)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &member{cmd, json.NewEncoder(in), json.NewDecoder(out), func() { _ = in.Close() }}, nil
}

// kill ends a worker as a crash would, and returns when it is gone. The next use
// of its place starts another.
func (c *crew) kill(i int) {
	m := c.members[i]
	_ = m.cmd.Process.Kill()
	m.end()
	_ = m.cmd.Wait() // it was killed
	c.members[i] = nil
}

// dismiss kills all workers, after a slice that went wrong in some of them.
func (c *crew) dismiss() {
	for i, m := range c.members {
		if m != nil {
			c.kill(i)
		}
	}
}

// renew makes the next use of a place start a new worker: what one contender leaves
// behind in a process, garbage and goroutines that go on for a while, another is not
// to pay for.
func (c *crew) renew(i int) {
	if i < len(c.members) && c.members[i] != nil {
		c.members[i].end()
		_ = c.members[i].cmd.Wait() // what it had to say it has said
		c.members[i] = nil
	}
}

// close ends all workers.
func (c *crew) close() {
	for i := range c.members {
		c.renew(i)
	}
	_ = os.RemoveAll(filepath.Dir(c.path))
}

// begin gives jobs to workers, from one on, and returns when all are ready.
func (c *crew) begin(first int, jobs []job) error {
	for i := range jobs {
		m, err := c.member(first + i)
		if err != nil {
			return err
		}
		if err := m.in.Encode(order{Job: &jobs[i]}); err != nil {
			return err
		}
	}
	var errs []error
	for _, m := range c.members[first : first+len(jobs)] {
		if a, err := m.hear(); err != nil {
			errs = append(errs, err)
		} else if !a.Ready {
			errs = append(errs, errors.New("a worker is not ready and does not say why"))
		}
	}
	return errors.Join(errs...)
}

// open tells n workers the window.
func (c *crew) open(first, n int, w window) error {
	for _, m := range c.members[first : first+n] {
		if err := m.in.Encode(order{Window: &w}); err != nil {
			return err
		}
	}
	return nil
}

// reports waits for those of n workers.
func (c *crew) reports(first, n int) ([]*report, error) {
	var all []*report
	var errs []error
	for _, m := range c.members[first : first+n] {
		a, err := m.hear()
		if err == nil && a.Report == nil {
			err = errors.New("a worker has no report")
		}
		errs = append(errs, err)
		all = append(all, a.Report)
	}
	return all, errors.Join(errs...)
}

// patience is how long a worker may be silent: longer than any window, and than
// any contender takes to open and close a thousand clients.
const patience = 2 * time.Minute

// hear waits for an answer. A worker that hangs says where, and ends.
func (m *member) hear() (answer, error) {
	var a answer
	hung := time.AfterFunc(patience, func() { _ = m.cmd.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	if err := m.out.Decode(&a); err != nil {
		return a, fmt.Errorf("worker: %w", err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("worker: %s", a.Err)
	}
	return a, nil
}

// soon is a window that leaves workers the time to hear of it, and callers a
// ramp to meet in.
func soon(ramp, length time.Duration) window {
	from := time.Now().Add(ramp)
	return window{From: from, Until: from.Add(length)}
}
