//go:build unix

package sqlservers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// process is one run of a server, with its children.
type process struct{ *redistest.Child }

// prepare runs a program that makes or changes the server's files.
func (s *Server) prepare(path string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd, log := s.command(ctx, path, args...), &redistest.LogTail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; it said:\n%s", path, err, log)
	}
	return nil
}

// run starts the server and waits until it accepts connections.
func (s *Server) run(path string, args ...string) (redistest.Run, error) {
	c, err := redistest.StartChild(s.command(context.Background(), path, args...), startTimeout, func() bool { return s.Responds(startTimeout) }, s.kind.ready)
	return &process{c}, err
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

func (s *Server) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.dir // the account may have no right to the folder of the tests
	// A MariaDB that starts removes the temporary tables of others in the same folder.
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+s.dir, "TMPDIR="+s.dir)
	cmd.SysProcAttr = redistest.DieWithParent()
	if s.as.set {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.as.uid, Gid: s.as.gid}
	}
	return cmd
}

// Pause stops the process and its children. The children of PostgreSQL are sessions of their
// own, so there is no group to signal. The first one stops first, so that no child is new.
func (p *process) Pause() error {
	if err := p.Child.Pause(); err != nil {
		return err
	}
	for _, child := range childrenOf(p.PID()) {
		_ = syscall.Kill(child, syscall.SIGSTOP) // it may have ended
		if err := awaitState(child, 'T'); err != nil {
			return err
		}
	}
	return nil
}

// Resume continues the process and its children.
func (p *process) Resume() error {
	for _, child := range childrenOf(p.PID()) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return p.Child.Resume()
}

// Kill ends the process and its children, even if they are stopped, and waits for them.
func (p *process) Kill() {
	var children []int
	if p.Signal(syscall.SIGSTOP) == nil {
		_ = awaitState(p.PID(), 'T')
		children = childrenOf(p.PID())
	}
	_ = p.Signal(syscall.SIGKILL)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	p.Child.Kill()
	for _, child := range children {
		_ = awaitState(child, 'Z')
	}
}

// terminate ends the process in order, by a signal.
func (p *process) terminate(end syscall.Signal) {
	_ = p.Resume() // a stopped process takes no signal
	_ = p.Signal(end)
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-p.Exited():
	case <-timeout.C:
		p.Kill()
	}
}
