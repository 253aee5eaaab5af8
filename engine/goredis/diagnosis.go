package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookIn is how long a server has to show why it turns connections away.
	lookIn = 200 * time.Millisecond
	// lookAgain is how long what it showed is taken for the cause of what follows.
	lookAgain = time.Second
)

// diagnosis says why connections to a server end before it has answered. go-redis
// speaks first, and then sees a broken connection only: where a server that has all
// the clients it takes, or is in protected mode, had said so and hung up; where it
// expects TLS; or where TLS is spoken to one that waits for the end of a line.
type diagnosis struct {
	mu    sync.Mutex
	under <-chan struct{} // a look under way
	at    time.Time       // of the last
	cause error           // nil: none was found
}

// turnedAway is what a server says to a connection before it is asked.
type refusedConn string

func (s refusedConn) Error() string { return string(s) }

// RedisError makes it an answer of the server.
func (refusedConn) RedisError() {}

// What the other cause is.
var (
	errWantsTLS = errors.New("the server expects TLS")
	errNoTLS    = errors.New("the server does not speak TLS")
)

// classify is the function of that name, of an error together with its cause.
func (e *Engine) classify(ctx context.Context, err error) error {
	return classify(ctx, e.because(ctx, err))
}

// because adds to an error of a connection why the server ends connections, if it
// shows that to a new one.
func (e *Engine) because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	addr, dial, secure := e.entrance()
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if dial == nil || isAnswer(err) || !ended && !(secure && isTimeout(err)) {
		return err
	}
	if cause := e.diagnosis.find(ctx, e, addr, dial, secure); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// find returns what the last look found, or a new one if it is old.
func (d *diagnosis) find(ctx context.Context, e *Engine, addr string, dial dialer, secure bool) error {
	d.mu.Lock()
	if d.under == nil && time.Since(d.at) > lookAgain {
		d.under = e.aside(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, lookIn)
			defer cancel()
			cause := look(ctx, addr, dial, secure)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.under, d.at, d.cause = nil, time.Now(), cause
		})
	}
	under := d.under
	d.mu.Unlock()
	if under != nil {
		t := time.NewTimer(lookIn)
		defer t.Stop()
		select {
		case <-under:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// entrance returns how to reach a server, without TLS, and whether the caller's client uses
// it.
func (e *Engine) entrance() (addr string, dial dialer, secure bool) {
	plain := (&net.Dialer{}).DialContext
	switch c := e.rdb.(type) {
	case *redis.Client:
		o := c.Options()
		switch {
		case o.TLSConfig == nil:
			return o.Addr, o.Dialer, false
		case o.Addr != failoverAddr:
			return o.Addr, plain, true
		}
	case *redis.ClusterClient:
		if o := c.Options(); len(o.Addrs) > 0 {
			return o.Addrs[0], plain, o.TLSConfig != nil
		}
	}
	return "", nil, false
}

// look makes a connection and returns what is wrong with it, or nil.
func look(ctx context.Context, addr string, dial dialer, secure bool) error {
	said, err := greet(ctx, addr, dial)
	switch {
	case said != "" && secure: // it has answered what is not TLS
		return errNoTLS
	case strings.HasPrefix(said, "-") && !strings.HasPrefix(said, "-NOAUTH"):
		return refusedConn(said[1:])
	case said != "" || err == nil || secure:
		return nil
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil { // nothing is sent over it
		return errWantsTLS
	}
	return nil
}

// greet returns the first line that a server says to a new connection.
func greet(ctx context.Context, addr string, dial dialer) (string, error) {
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	_, _ = io.WriteString(conn, "PING\r\n") // so that one in good health has something to say
	text := make([]byte, 256)
	n, err := conn.Read(text)
	line, _, whole := strings.Cut(string(text[:n]), "\r\n")
	if !whole {
		return "", errors.Join(err, io.ErrUnexpectedEOF) // such as an alert of TLS
	}
	return line, nil
}
