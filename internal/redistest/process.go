package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds a start on a busy machine; a start takes about 10 ms.
const startTimeout = 20 * time.Second

// errPortTaken is returned if another process has the port.
var errPortTaken = errors.New("port is taken")

// config is the configuration of a server, the same for every restart.
type config struct {
	path     string // of redis-server
	password string
	args     []string
	sentinel []string // directives of a Sentinel; nil: a server of data
}

// process is one run of redis-server.
type process struct {
	cmd    *exec.Cmd
	log    *logTail
	exited chan struct{} // closed when the process has ended and Wait has returned
}

// launch starts redis-server and waits until it answers.
func (c config) launch(dir string, port int) (*process, error) {
	args, err := c.arguments(dir, port)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd:    exec.Command(c.path, args...),
		log:    &logTail{ready: make(chan struct{})},
		exited: make(chan struct{}),
	}
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = DieWithParent()
	// Do not wait for a child that rewrites the append-only file: it holds the pipe of a
	// killed server.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.path, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // its log has the cause
	}()
	if err := p.await(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (c config) arguments(dir string, port int) ([]string, error) {
	if c.sentinel != nil {
		return sentinelArguments(dir, port, c.sentinel)
	}
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--daemonize", "no", "--save", "", "--appendonly", "no",
	}
	return append(args, c.args...), nil
}

// await returns when this process, and not another one on the same port, has logged that it is
// ready and answers PING.
func (p *process) await(addr string) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case <-p.log.ready:
	case <-p.exited:
		if p.log.contains("Address already in use") {
			return errPortTaken
		}
		return fmt.Errorf("redis-server ended at once; it said:\n%s", p.log)
	case <-timeout.C:
		return fmt.Errorf("redis-server is not ready after %v; it said:\n%s", startTimeout, p.log)
	}
	retry := time.NewTicker(2 * time.Millisecond)
	defer retry.Stop()
	for {
		err := ping(addr)
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-p.exited:
			return fmt.Errorf("redis-server ended at once; it said:\n%s", p.log)
		case <-timeout.C:
			return fmt.Errorf("redis-server does not answer after %v: %w; it said:\n%s", startTimeout, err, p.log)
		}
	}
}

// ping sends PING on a new connection. A server that requires a password is ready too.
func ping(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, startTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
		return nil
	}
	return errors.New(strings.TrimSpace(line))
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process, even if it is stopped, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.exited
}

// logTail keeps the end of a server's log, and detects when the server is ready.
type logTail struct {
	ready chan struct{}

	mu   sync.Mutex
	text []byte
	seen bool
}

func (l *logTail) Write(b []byte) (int, error) {
	const keep = 8 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if !l.seen && (bytes.Contains(l.text, []byte("Ready to accept connections")) || bytes.Contains(l.text, []byte("Sentinel ID is"))) {
		l.seen = true
		close(l.ready)
	}
	if len(l.text) > 2*keep {
		l.text = append([]byte(nil), l.text[len(l.text)-keep:]...)
	}
	return len(b), nil
}

func (l *logTail) contains(s string) bool { return strings.Contains(l.String(), s) }

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
