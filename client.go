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
	"github.com/holdfast-go/holdfast/internal/gate"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/tenure"
)

const (
	// callGrace is how much longer than its ctx a call may take to clean up.
	callGrace = 100 * time.Millisecond
	// releaseGrace bounds a Release whose ctx has ended.
	releaseGrace = time.Second
	// closeGrace bounds Close.
	closeGrace = 5 * time.Second
	// lostGrace bounds how long the store keeps a lost lease for a holder that
	// is scheduled late. It is less if the margin of the trust window is less.
	lostGrace = 500 * time.Millisecond
)

// A Client acquires and manages leases on the resources of one engine. It is
// safe for concurrent use. A process needs one for each engine and prefix, and
// must Close it at the end.
type Client struct {
	engine     engine.Engine
	prefix     string
	info       engine.Client
	log        *slog.Logger
	hooks      hooks
	counts     counts
	keep       *keepalive.Scheduler
	wakeups    wakeups
	lines      tenure.Lines[lineKey, localTurn]
	recalls    recalls
	shared     sharedGrants
	local      localLocks
	latestSpec atomic.Pointer[lockSpec] // of the latest handle
	breaker    breaker

	releases releaseQueue
	recorder *historyRecorder // nil: the history is off
	logLimit logLimit
	leaseLog leaseLog
	broken   brokenGrants

	gate     gate.Gate
	life     context.Context // ends when Close begins
	endLife  context.CancelFunc
	tasks    context.Context // of clean-ups; ends when Close stops waiting
	endTasks context.CancelFunc
	reports  []func()      // to hooks: of leases that Close has ended; owned by Close
	closed   chan struct{} // closed when Close has ended
	result   error         // of Close
}

// New returns a client of an engine such as goredis.New(rdb) or memory.New().
// Several clients may share an engine. New returns an error if e is nil, and
// ErrInvalid if an option is invalid, if a hook has a method of the wrong
// signature, or if the engine cannot work, as that of goredis.New(nil).
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
	if c.recorder, err = newHistoryRecorder(c, o.history); err != nil {
		return nil, err
	}
	c.closed = make(chan struct{})
	c.life, c.endLife = context.WithCancel(context.Background())
	c.tasks, c.endTasks = context.WithCancel(context.Background())
	c.wakeups.open(c)
	c.recalls.open(c)
	c.breaker.c = c
	c.releases.c = c
	c.logLimit.open(c.log)
	c.leaseLog.open(c.log, &c.logLimit)
	return c, nil
}

// Mutex returns a handle for a resource with one holder at a time. It makes no
// call to the store. Handles with the same name are the same lock.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{lockSpec{kind: engine.KindMutex, capacity: 1, opts: lockOptionsOf(name, opts)}.on(c, name)}
}

// Close releases all leases, ends all waits with ErrClosed, and returns when
// the client's goroutines have ended: within 5 seconds if the store responds.
// The error states how many leases the store did not confirm to have released,
// also of those whose release was being retried when Close was called. It names
// some of them, and matches ErrUnavailable if the store was unavailable; those
// leases expire by their TTL. Close does not close the engine. Later calls
// return the same error.
func (c *Client) Close() error {
	// A channel and not a sync.Once: in a bubble of testing/synctest time stands
	// still while a goroutine waits for a mutex.
	if c.gate.Close() {
		c.result = c.shut()
		close(c.closed)
		for _, report := range c.reports { // last, since a hook may panic
			report()
		}
		c.logLimit.close() // of what the reports have logged
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
	if !c.gate.Wait(ctx) {
		c.endTasks()
		c.releases.stop()
		late, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		c.gate.Wait(late)
	}
	// A grant in transit when Close began may have arrived since.
	rest, cancel := context.WithTimeout(context.Background(), releaseGrace)
	defer cancel()
	err = errors.Join(err, c.releaseAll(rest))
	c.endTasks()
	c.releases.stop()
	err = errors.Join(err, c.releases.unreleasedError())
	c.keep.Stop()
	c.wakeups.close()
	c.recorder.close()
	c.engine.Leave(c.info.ID)
	c.logLimit.close()
	c.reports = append(c.reports, c.breaker.answered) // no lock falls back any more
	return err
}

// resource returns the engine's name of a resource.
func (c *Client) resource(name string) engine.Resource {
	return engine.Resource{Prefix: c.prefix, Name: name}
}

// idDigits are the digits of IDs: five bits each, and no character that is
// special to a shell or a flag parser.
const idDigits = "0123456789abcdefghijklmnopqrstuv"

// newClientID returns the random part that all holder IDs of a client share.
func newClientID() string {
	var b [13]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
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
