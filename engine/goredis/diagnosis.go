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
	// lookIn bounds the time to find out why a server refuses connections.
	lookIn = 200 * time.Millisecond
	// lookAgain is how long a cause is reported for later errors as well.
	lookAgain = time.Second
)

// diagnosis finds out why a server closes connections before it answers. go-redis writes
// first and sees only a broken connection if the server has too many clients or is in
// protected mode (it sends an error and closes), if the server expects TLS, or if it does not
// speak TLS but the client does. A server that requires a password closes the connection after a long command.
type diagnosis struct {
	mu    sync.Mutex
	under <-chan struct{} // closed when the current look ends; nil: there is none
	at    time.Time       // of the last look
	cause error           // nil: none was found
}

// refusedConn is an error that a server sends on a new connection before any command.
type refusedConn string

func (s refusedConn) Error() string { return string(s) }

// RedisError marks it as an answer of the server.
func (refusedConn) RedisError() {}

// The other causes.
var (
	errWantsTLS = errors.New("the server expects TLS")
	errNoTLS    = errors.New("the server does not speak TLS")
)

// classify is the function classify, with the cause that because finds.
func (e *Engine) classify(ctx context.Context, err error) error {
	return classify(ctx, e.because(ctx, err))
}

// because adds the reason to an error of a connection if a new connection shows why the
// server closes connections.
func (e *Engine) because(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	in := e.entrance()
	ended := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
	if in.dial == nil || isAnswer(err) || !ended && !(in.secure && isTimeout(err)) {
		return err
	}
	if cause := e.diagnosis.find(ctx, e, in); cause != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// find returns the result of the last look, or of a new one if it is old.
func (d *diagnosis) find(ctx context.Context, e *Engine, in entrance) error {
	d.mu.Lock()
	if d.under == nil && time.Since(d.at) > lookAgain {
		d.under = e.aside(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, lookIn)
			defer cancel()
			cause := in.look(ctx)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.under, d.at, d.cause = nil, time.Now(), cause
		})
	}
	under := d.under
	d.mu.Unlock()
	if under != nil {
		select {
		case <-under:
		case <-time.After(lookIn):
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cause
}

// entrance is how to reach a server, without TLS.
type entrance struct {
	addr      string
	dial      dialer // nil: unknown
	secure    bool   // the caller's client uses TLS
	anonymous bool   // it does not authenticate
}

// entrance returns how to reach the server of the caller's client, or one node of its cluster.
func (e *Engine) entrance() entrance {
	plain := (&net.Dialer{}).DialContext
	switch c := e.rdb.(type) {
	case *redis.Client:
		o := c.Options()
		anonymous := o.Password == "" && o.CredentialsProvider == nil && o.CredentialsProviderContext == nil &&
			o.StreamingCredentialsProvider == nil && o.OnConnect == nil
		switch {
		case o.TLSConfig == nil:
			return entrance{o.Addr, o.Dialer, false, anonymous}
		case o.Addr != failoverAddr:
			return entrance{o.Addr, plain, true, anonymous}
		}
	case *redis.ClusterClient:
		if o := c.Options(); len(o.Addrs) > 0 {
			return entrance{addr: o.Addrs[0], dial: plain, secure: o.TLSConfig != nil}
		}
	}
	return entrance{}
}

// look opens a connection and returns what is wrong with it, or nil.
func (in entrance) look(ctx context.Context) error {
	said, err := greet(ctx, in.addr, in.dial)
	switch {
	case said != "" && in.secure: // the answer is not TLS
		return errNoTLS
	case strings.HasPrefix(said, "-") && (in.anonymous || !strings.HasPrefix(said, "-NOAUTH")):
		return refusedConn(said[1:])
	case said != "" || err == nil || in.secure:
		return nil
	}
	conn, err := in.dial(ctx, "tcp", in.addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil { // nothing is sent over it
		return errWantsTLS
	}
	return nil
}

// greet returns the first line that a server sends on a new connection.
func greet(ctx context.Context, addr string, dial dialer) (string, error) {
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	_, _ = io.WriteString(conn, "PING\r\n") // a healthy server answers it
	text := make([]byte, 256)
	n, err := conn.Read(text)
	line, _, whole := strings.Cut(string(text[:n]), "\r\n")
	if !whole {
		return "", errors.Join(err, io.ErrUnexpectedEOF) // such as an alert of TLS
	}
	return line, nil
}
