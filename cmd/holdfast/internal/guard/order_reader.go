package guard

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// orderReader reads the orders of the parent. It counts as idle only if all that was read from the
// socket has become orders, so drained can tell whether one is under way.
type orderReader struct {
	socket syscall.RawConn
	orders chan order // closed when the parent has died

	mu   sync.Mutex // held while the socket is read
	idle bool       // the latest read found nothing
	fd   int
}

// newOrderReader starts the reader, which ends when the parent has closed the socket.
func newOrderReader(conn *os.File) *orderReader {
	r := &orderReader{orders: make(chan order)}
	var err error
	if r.socket, err = conn.SyscallConn(); err != nil {
		close(r.orders) // as if the parent had died
		return r
	}
	go r.read()
	return r
}

func (r *orderReader) read() {
	defer close(r.orders)
	in := json.NewDecoder(r)
	for {
		var o order
		if err := in.Decode(&o); err != nil {
			return
		}
		r.orders <- o
	}
}

// Read implements io.Reader.
func (r *orderReader) Read(p []byte) (n int, err error) {
	closed := r.socket.Read(func(fd uintptr) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for n, err = syscall.Read(int(fd), p); errors.Is(err, syscall.EINTR); {
			n, err = syscall.Read(int(fd), p)
		}
		r.fd, r.idle = int(fd), errors.Is(err, syscall.EAGAIN)
		return !r.idle
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// drained reports whether every order that the parent has sent was received from orders.
func (r *orderReader) drained() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.idle {
		return false
	}
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}, 0)
	return ready == 0 && err == nil
}

// readAhead reads the orders that were sent before now, if it is too late to start the command: a renewal may be among
// them. It returns the others, which are for the command.
func (s *runner) readAhead() (others []order) {
	for most := now().add(s.cmd.lead() / 2); s.tooLate() && now() < most && !s.reader.drained(); {
		select {
		case o, ok := <-s.reader.orders:
			switch {
			case !ok:
				return nil // the parent has died: the command is not started
			case o.Deadline != 0:
				s.deadline = max(s.deadline, o.Deadline)
			default:
				others = append(others, o)
			}
		case <-time.After(time.Millisecond): // the reader has not run yet
		}
	}
	return others
}

// catchUp carries out the orders that were sent before now, if TERM is due: after a slow start, or when this
// process did not run for a while, a renewal may be among them, which puts TERM off. It gives up when KILL is due,
// but not at once: the renewal may have come while this process did not run until then.
func (s *runner) catchUp() {
	least := now().add(s.cmd.lead() / 2)
	for s.reader != nil && s.cause == "" {
		here := now()
		if here < s.termBy() || here >= max(least, s.deadline.add(-s.cmd.lead())) || s.reader.drained() {
			return
		}
		select {
		case o, ok := <-s.reader.orders:
			s.obey(o, ok)
		case <-time.After(time.Millisecond): // the reader has not run yet
		}
	}
}
