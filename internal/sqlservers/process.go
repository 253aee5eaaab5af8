//go:build unix

package sqlservers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	log    *logTail
	exited chan struct{} // closed when the process has ended and Wait has returned
}

// prepare runs a program that makes or changes the server's files.
func (s *Server) prepare(path string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd, log := exec.CommandContext(ctx, path, args...), &logTail{}
	s.dress(cmd, log)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; it said:\n%s", path, err, log)
	}
	return nil
}

// run starts the server and waits until it accepts connections.
func (s *Server) run(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), log: &logTail{}, exited: make(chan struct{})}
	s.dress(p.cmd, p.log)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its log has the cause
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		if p.log.contains(s.kind.ready) && s.Responds(startTimeout) {
			return p, nil
		}
		select {
		case <-retry.C:
		case <-p.exited:
			if p.log.contains("Address already in use") {
				return nil, errPortTaken
			}
			return nil, fmt.Errorf("%s ended; it said:\n%s", path, p.log)
		case <-timeout.C:
			p.kill()
			return nil, fmt.Errorf("%s is not ready after %v; it said:\n%s", path, startTimeout, p.log)
		}
	}
}

// Responds reports whether a new connection gets a reply within a time.
func (s *Server) Responds(within time.Duration) bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), within)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return false
	}
	if _, err := conn.Write(s.kind.ask); err != nil {
		return false
	}
	n, _ := conn.Read(make([]byte, 1))
	return n == 1
}

func (s *Server) dress(cmd *exec.Cmd, log *logTail) {
	cmd.Dir = s.dir // the account may have no right to the folder of the tests
	// A MariaDB that starts removes the temporary tables of others in the same folder.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.dir, "TMPDIR="+s.dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = redistest.DieWithParent()
	if s.as.set {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.as.uid, Gid: s.as.gid}
	}
	cmd.WaitDelay = time.Second
}

// pause stops the process and its children. The children of PostgreSQL are sessions of their
// own, so there is no group to signal. The first one stops first, so that no child is new.
func (p *process) pause() error {
	pid := p.cmd.Process.Pid
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := awaitState(pid, 'T'); err != nil {
		return err
	}
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGSTOP) // it may have ended
		if err := awaitState(child, 'T'); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) resume() error {
	pid := p.cmd.Process.Pid
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// kill ends the process and its children, even if they are stopped, and waits for them.
func (p *process) kill() {
	pid := p.cmd.Process.Pid
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // an error means that it has ended already
	_ = awaitState(pid, 'T')
	children := childrenOf(pid)
	_ = p.cmd.Process.Kill()
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	<-p.exited
	for _, child := range children {
		_ = awaitState(child, 'Z')
	}
}

// terminate ends the process in order, by a signal.
func (p *process) terminate(end syscall.Signal) {
	_ = p.resume() // a stopped process takes no signal
	_ = p.cmd.Process.Signal(end)
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-timeout.C:
		p.kill()
	}
}

// logTail keeps the end of what a server printed.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

func (l *logTail) Write(b []byte) (int, error) {
	const keep = 16 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	l.text = l.text[max(0, len(l.text)-keep):]
	return len(b), nil
}

func (l *logTail) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.text, []byte(s))
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
