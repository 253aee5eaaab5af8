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

// member is one node process, as the parent sees it.
type member struct {
	name string
	proc *exec.Cmd
	in   io.WriteCloser
}

// heard is a report and who made it; done is set once, when the process ended.
type heard struct {
	report
	from *member
	done bool
}

// crew is the nodes of one act. Its channel yields what they report.
type crew struct {
	members []*member
	reports chan heard
	readers sync.WaitGroup
}

// hire starts a process for every node and tells it who it is.
func hire(nodes []config) (*crew, error) {
	c := &crew{reports: make(chan heard, 256)}
	for _, conf := range nodes {
		if err := c.add(conf); err != nil {
			c.dismiss()
			return nil, err
		}
	}
	return c, nil
}

// add starts one more process. It must not be called after dismiss.
func (c *crew) add(conf config) error {
	self, err := os.Executable()
	if err == nil {
		err = c.start(self, conf)
	}
	if err != nil {
		return fmt.Errorf("start node %s: %w", conf.Name, err)
	}
	return nil
}

func (c *crew) start(self string, conf config) error {
	m := &member{name: conf.Name, proc: &exec.Cmd{
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
			h := heard{from: m}
			if err := json.Unmarshal(lines.Bytes(), &h.report); err != nil {
				h.report = report{Kind: failed, Text: fmt.Sprintf("said %q", lines.Text())}
			}
			c.reports <- h
		}
		_ = m.proc.Wait() // its reports tell how it went
		c.reports <- heard{from: m, done: true}
	})
	line, err := json.Marshal(conf)
	if err != nil {
		return err
	}
	return m.say(string(line))
}

func (m *member) say(line string) error {
	_, err := io.WriteString(m.in, line+"\n")
	return err
}

func (m *member) signal(sig syscall.Signal) error { return m.proc.Process.Signal(sig) }

// begin lets all nodes begin at once.
func (c *crew) begin() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.say(lineStart))
	}
	return errors.Join(errs...)
}

// dismiss ends what still runs and returns when all processes are gone.
func (c *crew) dismiss() {
	for _, m := range c.members {
		m.in.Close()
		_ = m.proc.Process.Kill() // also ends a stopped one
	}
	go func() {
		c.readers.Wait()
		close(c.reports)
	}()
	for range c.reports { // nobody else listens any more
	}
}
