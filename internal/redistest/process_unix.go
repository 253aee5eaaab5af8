//go:build unix

package redistest

import "syscall"

func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.pid())
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
