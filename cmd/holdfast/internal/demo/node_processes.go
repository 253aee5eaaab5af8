package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// nodeProcess is the process of one node, as the parent sees it.
type nodeProcess struct {
	name string
	proc *exec.Cmd
	in   io.WriteCloser
}

// nodeReport is a report and the node that sent it, or done: the process has ended.
type nodeReport struct {
	report
	from *nodeProcess
	done bool
}

// nodeProcesses are the nodes of one act. The channel yields their reports.
type nodeProcesses struct {
	members []*nodeProcess
	reports chan nodeReport
	readers sync.WaitGroup
}

// startNodes starts a process for every node and sends it its configuration.
func startNodes(nodes []config) (*nodeProcesses, error) {
	c := &nodeProcesses{reports: make(chan nodeReport, 256)}
	for _, conf := range nodes {
		if err := c.add(conf); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

// add starts one more process. It must not be called after stop.
func (c *nodeProcesses) add(conf config) error {
	self, err := os.Executable()
	if err == nil {
		err = c.startNode(self, conf)
	}
	if err != nil {
		return fmt.Errorf("start node %s: %w", conf.Name, err)
	}
	return nil
}

func (c *nodeProcesses) startNode(self string, conf config) error {
	m := &nodeProcess{name: conf.Name, proc: &exec.Cmd{
		Path: self, Args: []string{NodeName}, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // ^C is for the parent alone
	}}
	var err error
	if m.in, err = m.proc.StdinPipe(); err != nil {
		return err
	}
	out, err := m.proc.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.proc.Start(); err != nil {
		return err
	}
	c.members = append(c.members, m)
	c.readers.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			h := nodeReport{from: m}
			if err := json.Unmarshal(lines.Bytes(), &h.report); err != nil {
				h.report = report{Kind: failed, Text: fmt.Sprintf("wrote %q", lines.Text())}
			}
			c.reports <- h
		}
		_ = m.proc.Wait() // the reports have the outcome
		c.reports <- nodeReport{from: m, done: true}
	})
	line, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	return m.send(string(line))
}

func (m *nodeProcess) send(line string) error {
	_, err := io.WriteString(m.in, line+"\n")
	return err
}

func (m *nodeProcess) signal(sig syscall.Signal) error { return m.proc.Process.Signal(sig) }

// begin starts the work of all nodes at once.
func (c *nodeProcesses) begin() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.send(lineStart))
	}
	return errors.Join(errs...)
}

// stop kills the processes that still run and returns when all have ended.
func (c *nodeProcesses) stop() {
	for _, m := range c.members {
		m.in.Close()
		_ = m.proc.Process.Kill() // also ends a stopped one
	}
	go func() {
		c.readers.Wait()
		close(c.reports)
	}()
	for range c.reports { // the senders must not block
	}
}
