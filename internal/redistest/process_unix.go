//go:build unix

package redistest

import (
	"os"
	"syscall"
)

// Pause stops a process with SIGSTOP; on Linux it returns once the process has stopped.
func Pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(p.Pid)
}

// AwaitStopped waits until a process that stops itself has stopped; on systems other than Linux it does not wait.
func AwaitStopped(p *os.Process) error { return awaitStopped(p.Pid) }

// Resume continues a paused process.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
