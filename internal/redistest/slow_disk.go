package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// SlowDisk is what makes the disk of a server slow, until its End.
type SlowDisk struct {
	server *Server
	strace *exec.Cmd
	ended  chan struct{} // closed when strace has ended
}

// attachTimeout bounds the time until strace traces a server.
const attachTimeout = 10 * time.Second

// SlowDisk makes the server write each command to the disk before it replies, and each such write take longer by a
// time: as under appendfsync always on a disk that is slow. The server needs WithAppendOnly, and Linux strace, which
// has to be allowed to trace it.
func (s *Server) SlowDisk(by time.Duration) (*SlowDisk, error) {
	if err := s.fsync("always"); err != nil {
		return nil, err
	}
	sudo := []string{"sudo", "-n"} // where a process may trace only its children
	d, err := s.trace(nil, by)
	if err != nil {
		if d, again := s.trace(sudo, by); again == nil {
			return d, nil
		}
		err = errors.Join(err, s.fsync("no"))
	}
	return d, err
}

func (s *Server) fsync(when string) error {
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error { return c.ConfigSet(ctx, "appendfsync", when).Err() })
}

// trace starts strace and waits until it has attached.
func (s *Server) trace(before []string, by time.Duration) (*SlowDisk, error) {
	args := append(before, "strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
		"-e", fmt.Sprintf("inject=fsync,fdatasync:delay_enter=%d", by.Microseconds()), "-p", strconv.Itoa(s.PID()))
	d := &SlowDisk{server: s, strace: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	stderr, err := d.strace.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := d.strace.Start(); err != nil {
		return nil, fmt.Errorf("redistest: a slow disk needs strace: %w", err)
	}
	said := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		if lines.Scan() {
			said <- lines.Text()
		}
		_, _ = io.Copy(io.Discard, stderr)
		_ = d.strace.Wait()
		close(d.ended)
	}()
	select {
	case line := <-said:
		if strings.Contains(line, "attached") {
			return d, nil
		}
		err = errors.New(line)
	case <-d.ended:
		err = errors.New("it ended")
	case <-time.After(attachTimeout):
		err = fmt.Errorf("no word in %v", attachTimeout)
	}
	_ = d.strace.Process.Kill()
	<-d.ended
	return nil, fmt.Errorf("redistest: strace does not trace process %d: %w", s.PID(), err)
}

// End makes the disk fast again, if the server lives.
func (d *SlowDisk) End() error {
	_ = d.strace.Process.Signal(syscall.SIGTERM) // it detaches, unless it has ended with the server
	<-d.ended
	if d.server.PID() == 0 {
		return nil
	}
	return d.server.fsync("no")
}
