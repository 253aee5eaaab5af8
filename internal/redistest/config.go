package redistest

import (
	"bufio"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// startTimeout bounds a start on a busy machine; a start takes about 10 ms.
const startTimeout = 20 * time.Second

// config is the configuration of a server, the same for every restart.
type config struct {
	path     string // of redis-server
	password string
	args     []string
	sentinel []string // directives of a Sentinel; nil: a server of data
	clock    RatedClock
}

// launch starts redis-server and waits until it, and not another process on the same port, has logged
// that it is ready, and answers PING.
func (c config) launch(dir string, port int) (*Child, error) {
	args, err := c.arguments(dir, port)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.path, args...)
	cmd.Dir = dir
	if cmd.Env, err = c.rated(); err != nil {
		return nil, err
	}
	addr := loopback(port)
	return StartChild(cmd, startTimeout, func() bool { return ping(addr) == nil }, "Ready to accept connections", "Sentinel ID is")
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
