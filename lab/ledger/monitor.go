package ledger

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// redial is the pause between two attempts to reach a server that is down.
	redial = time.Millisecond
	// readThrough bounds Close: reading what the server did until then.
	readThrough = 5 * time.Second
)

// Watch reads what the server does until Close is called. It returns when MONITOR runs.
func (l *Ledger) Watch(opts *redis.Options) (*Watch, error) {
	if opts.Password != "" || opts.TLSConfig != nil || opts.Network != "" && opts.Network != "tcp" {
		return nil, fmt.Errorf("ledger: %s needs a password, TLS or a socket, which MONITOR is not used with here", opts.Addr)
	}
	w := &Watch{ledger: l, opts: opts, mark: strconv.FormatInt(time.Now().UnixNano(), 36), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	conn, lines, err := w.open(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	go w.run(ctx, conn, lines)
	return w, nil
}

// Watch is a Ledger that is being written.
type Watch struct {
	ledger *Ledger
	opts   *redis.Options
	mark   string // of the last command to read
	cancel context.CancelFunc
	done   chan struct{}
}

// Close reads what the server has done until now, and ends. The error means that the ledger is not complete.
func (w *Watch) Close(ctx context.Context) error {
	defer func() { w.cancel(); <-w.done }()
	ctx, cancel := context.WithTimeout(ctx, readThrough)
	defer cancel()
	c := redis.NewClient(w.opts)
	defer c.Close()
	if err := c.Echo(ctx, w.mark).Err(); err != nil {
		return fmt.Errorf("ledger of %s: %w", w.opts.Addr, err)
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ledger of %s: MONITOR did not report the last command: %w", w.opts.Addr, ctx.Err())
	}
}

// open begins MONITOR on a connection of its own.
func (w *Watch) open(ctx context.Context) (net.Conn, *bufio.Reader, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.opts.Addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // a stopped server does not answer
	defer stop()
	lines := bufio.NewReader(conn)
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	if err == nil {
		var answer string
		if answer, err = lines.ReadString('\n'); err == nil && answer != "+OK\r\n" {
			err = fmt.Errorf("MONITOR: %s", answer)
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, lines, nil
}

// run reads until the mark, over any number of connections.
func (w *Watch) run(ctx context.Context, conn net.Conn, lines *bufio.Reader) {
	defer close(w.done)
	for {
		present := conn // the function may run late, when conn is another one or none
		stop := context.AfterFunc(ctx, func() { present.Close() })
		marked := w.read(lines)
		stop()
		conn.Close()
		if marked {
			return
		}
		for {
			var err error
			if conn, lines, err = w.open(ctx); err == nil {
				break
			}
			select {
			case <-time.After(redial):
			case <-ctx.Done():
				return
			}
		}
		w.ledger.mu.Lock()
		w.ledger.blind = append(w.ledger.blind, span{w.ledger.last, w.ledger.since(time.Now())})
		w.ledger.mu.Unlock()
	}
}

// read reads the lines of one connection, and reports whether the mark was among them.
func (w *Watch) read(lines *bufio.Reader) (marked bool) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		at, args, err := parse(line)
		if err != nil {
			continue // not a command
		}
		if len(args) == 2 && strings.EqualFold(args[0], "ECHO") && args[1] == w.mark {
			return true
		}
		w.ledger.add(at, args)
	}
}

// parse reads a line of MONITOR: the time by the server's clock, where the command came from, and its arguments,
// each as Go quotes a text:
//
//	+1700000000.123456 [0 lua] "HSET" "p:{stock}" "deadline" "1700000015123456"
func parse(line string) (at time.Duration, args []string, err error) {
	line = strings.TrimRight(strings.TrimPrefix(line, "+"), "\r\n")
	stamp, rest, _ := strings.Cut(line, " ")
	seconds, micros, _ := strings.Cut(stamp, ".")
	n, err := strconv.ParseInt(seconds+micros, 10, 64)
	if err != nil || len(micros) != 6 {
		return 0, nil, fmt.Errorf("no time: %q", line)
	}
	_, rest, ok := strings.Cut(rest, "] ")
	if !ok {
		return 0, nil, fmt.Errorf("no origin: %q", line)
	}
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return 0, nil, fmt.Errorf("argument %d of %q: %w", len(args), line, err)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return 0, nil, fmt.Errorf("argument %d of %q: %w", len(args), line, err)
		}
		args, rest = append(args, arg), strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return time.Duration(n) * time.Microsecond, args, nil
}
