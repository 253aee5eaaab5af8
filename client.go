package holdfast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

const (
	// callGrace is how much longer than its ctx a call may take, to clean up.
	callGrace = 100 * time.Millisecond
	// releaseGrace bounds a Release whose ctx has ended already.
	releaseGrace = time.Second
	// closeGrace bounds Close.
	closeGrace = 5 * time.Second
	// lostGrace bounds how long the store keeps a lost lease for a holder that is
	// scheduled late; less where the margin of its trust window is less.
	lostGrace = 500 * time.Millisecond
)

// Client takes locks on the resources of one engine. It is safe for concurrent
// use. A process needs one for each engine and prefix; Close it in the end.
type Client struct {
	engine     engine.Engine
	prefix     string
	info       engine.Client
	log        *slog.Logger
	hooks      hooks
	keep       *keepalive.Scheduler
	wakeups    wakeups
	lines      tenure.Lines[lineKey, localTurn]
	local      localLocks
	latestSpec atomic.Pointer[lockSpec] // of the latest handle
	breaker    breaker

	releases releaseQueue
	logLimit logLimit
	broken   brokenGrants

	gate     gate
	life     context.Context // ends when Close begins
	endLife  context.CancelFunc
	tasks    context.Context    // what clears up; ends when Close gives up
	endTasks context.CancelFunc // ends the tasks
	closed   chan struct{}      // closed when Close has ended
	result   error              // of Close
}

// New returns a client of an engine, like goredis.New(rdb) or memory.New(). The
// engine may be shared by clients. Errors: a nil engine; ErrInvalid for a bad option, for a
// hook with a method that does not match, and for an engine that cannot work, like that of
// goredis.New(nil).
func New(e engine.Engine, opts ...Option) (*Client, error) {
	if e == nil {
		return nil, errors.New("holdfast: engine is nil: pass goredis.New(rdb) or memory.New()")
	}
	if checker, ok := e.(engine.Checker); ok {
		if err := checker.Check(); err != nil {
			return nil, fmt.Errorf("holdfast: %w: %w", ErrInvalid, err)
		}
	}
	o := clientOptions{prefix: DefaultPrefix, name: filepath.Base(os.Args[0]), logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		if opt == nil {
			o.fail(optionError("an Option is nil"))
			continue
		}
		opt(&o)
	}
	if o.err != nil {
		return nil, o.err
	}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	h, err := sortHooks(o.hooks)
	if err != nil {
		return nil, err
	}
	c := &Client{
		engine: e,
		prefix: o.prefix,
		info:   engine.Client{ID: newClientID(), Name: o.name},
		log:    o.logger,
		hooks:  h,
		keep:   keepalive.New(e),
	}
	if o.meta != nil {
		c.info.Host, c.info.PID = o.meta.Host, o.meta.PID
	} else {
		c.info.Host, _ = os.Hostname() // an empty host is shown as such
		c.info.PID = os.Getpid()
	}
	c.closed = make(chan struct{})
	c.life, c.endLife = context.WithCancel(context.Background())
	c.tasks, c.endTasks = context.WithCancel(context.Background())
	c.wakeups.open(c)
	c.breaker.c = c
	c.releases.c = c
	c.logLimit.open(c.log)
	return c, nil
}

// Mutex returns a handle on a resource that one holder at a time may hold. It
// costs nothing until it is used; handles of the same name are the same lock.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{lockSpec{kind: engine.KindMutex, capacity: 1, opts: lockOptionsOf(name, opts)}.on(c, name)}
}

// Close releases all leases, ends all waits with ErrClosed and returns when the
// goroutines of the client are gone, within 5 seconds if the store answers. The
// error says how many leases the store did not confirm to have back, names a few
// of them, and is ErrUnavailable if the store was away; such leases end by their
// TTL. The engine stays open. Further calls return the same.
func (c *Client) Close() error {
	// A channel and not a sync.Once: in a bubble of testing/synctest time stands
	// still while a goroutine waits for a mutex.
	if c.gate.close() {
		c.result = c.shut()
		close(c.closed)
	}
	<-c.closed
	return c.result
}

func (c *Client) shut() error {
	c.endLife()
	c.releases.hurry()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := c.releaseAll(ctx)
	if !c.gate.wait(ctx) {
		c.endTasks()
		c.releases.stop()
		late, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		c.gate.wait(late)
	}
	// A grant that was on its way when Close began may have been taken since.
	rest, cancel := context.WithTimeout(context.Background(), releaseGrace)
	defer cancel()
	err = errors.Join(err, c.releaseAll(rest))
	c.endTasks()
	c.releases.stop()
	c.keep.Stop()
	c.wakeups.close()
	c.engine.Leave(c.info.ID)
	c.logLimit.close()
	return err
}

// resource names a resource to the engine.
func (c *Client) resource(name string) engine.Resource {
	return engine.Resource{Prefix: c.prefix, Name: name}
}

// idDigits are what IDs are made of: five bits each, and nothing that a shell or
// a flag parser takes for its own.
const idDigits = "0123456789abcdefghijklmnopqrstuv"

// newClientID returns the random part that all holder IDs of a client share.
func newClientID() string {
	var b [13]byte
	_, _ = rand.Read(b[:]) // it never fails: crypto/rand ends the program first
	for i := range b {
		b[i] = idDigits[b[i]%byte(len(idDigits))]
	}
	return string(b[:])
}

// newHolderID returns the random identity of one attempt.
func (c *Client) newHolderID() string {
	b := make([]byte, 0, 32)
	b = append(b, c.info.ID...)
	b = append(b, '.')
	for r, i := mathrand.Uint64(), 0; i < 12; i++ {
		b = append(b, idDigits[r%uint64(len(idDigits))])
		r /= uint64(len(idDigits))
	}
	return string(b)
}

// sleep waits; it returns false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
