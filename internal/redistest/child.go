package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Child is one run of a server, for this package and those of other stores. It ends with this process.
type Child struct {
	cmd    *exec.Cmd
	log    LogTail
	exited chan struct{} // closed when the process has ended and Wait has returned
}

// ErrEnded matches the error of a Child that ended before it was ready, and ErrPortTaken if it has
// logged that another process has its port.
var (
	ErrEnded     = errors.New("ended")
	ErrPortTaken = errors.New("port is taken")
)

// StartChild starts a server and waits until it has logged one of the marks, if there are any, and responds. If it ends
// before, or takes longer than the limit, the error has the end of its log.
func StartChild(cmd *exec.Cmd, limit time.Duration, responds func() bool, marks ...string) (*Child, error) {
	c := &Child{cmd: cmd, log: LogTail{marks: marks, marked: len(marks) == 0}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = DieWithParent()
	}
	// Do not wait for a grandchild, such as one that rewrites the append-only file: it holds the
	// pipe of a killed server.
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // its log has the cause
	}()
	if err := c.await(limit, responds); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

func (c *Child) await(limit time.Duration, responds func() bool) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for !c.log.ready() || !responds() {
		select {
		case <-retry.C:
		case <-c.exited:
			if strings.Contains(c.log.String(), "Address already in use") {
				return fmt.Errorf("%s: %w: %w", c.cmd.Path, ErrEnded, ErrPortTaken)
			}
			return fmt.Errorf("%s: %w; it said:\n%s", c.cmd.Path, ErrEnded, &c.log)
		case <-timeout.C:
			return fmt.Errorf("%s is not ready after %v; it said:\n%s", c.cmd.Path, limit, &c.log)
		}
	}
	return nil
}

// PID returns the process ID.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Pause stops the process; on Linux it returns once the process has stopped.
func (c *Child) Pause() error { return Pause(c.cmd.Process) }

// Resume continues a paused process.
func (c *Child) Resume() error { return Resume(c.cmd.Process) }

// Signal sends a signal to the process. An error means that the process has ended.
func (c *Child) Signal(s os.Signal) error { return c.cmd.Process.Signal(s) }

// Kill ends the process, even if it is paused, and waits for its end.
func (c *Child) Kill() {
	_ = c.cmd.Process.Kill() // an error means that it has ended already
	<-c.exited
}

// Exited is closed when the process has ended.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// LogTail keeps the last 16 KiB of what is written to it.
type LogTail struct {
	marks []string

	mu     sync.Mutex
	text   []byte
	marked bool // whether one of the marks was written
}

// Write implements io.Writer.
func (l *LogTail) Write(b []byte) (int, error) {
	const keep = 16 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.marked = l.marked || slices.ContainsFunc(l.marks, func(mark string) bool { return bytes.Contains(l.text, []byte(mark)) })
	l.text = l.text[max(0, len(l.text)-keep):]
	return len(b), nil
}

func (l *LogTail) ready() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marked
}

// String returns the text.
func (l *LogTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// FreePorts returns different ports that are free now. They, and the ports 10000 above them, which
// nodes of a Redis cluster use too, are below the range that systems use for outgoing connections. One
// of these could take the port of a server while it is dead; and a client that dials the port again and
// again inside that range may connect to itself.
func FreePorts(n int) ([]int, error) {
	const (
		lowest, highest = 10_000, 19_999
		triesPerPort    = 20
	)
	var ports []int
	var err error
	defer func() { // after they are closed
		for _, port := range ports {
			awaitClosed(port)
		}
	}()
	for range n * triesPerPort {
		var l net.Listener
		port := lowest + rand.IntN(highest-lowest+1)
		if l, err = net.Listen("tcp", loopback(port)); err != nil {
			continue // most likely taken, perhaps by this function
		}
		defer l.Close() // after the others are found
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("redistest: no %d free ports: %w", n, err)
}

// awaitClosed waits until nothing listens on a port that this process has closed. A process that another
// goroutine starts at that moment has copies of all open files until its exec.
func awaitClosed(port int) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		conn, err := net.Dial("tcp", loopback(port))
		if err != nil {
			return
		}
		conn.Close()
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
