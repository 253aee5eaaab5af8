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
	"slices"
	"sync"
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
	// cleanupMin and cleanupMax bound a clean-up in the background; between
	// them it takes as long as the TTL, after which nothing is left anyway.
	cleanupMin = 5 * time.Second
	cleanupMax = 30 * time.Second
)

// Client takes locks on the resources of one engine. It is safe for concurrent
// use. A process needs one for each engine and prefix; Close it in the end.
type Client struct {
	engine  engine.Engine
	prefix  string
	info    engine.Client
	log     *slog.Logger
	hooks   hooks
	keep    *keepalive.Scheduler
	mail    mailbox
	lines   tenure.Lines[lineKey, turn]
	rooms   rooms
	terms   atomic.Pointer[terms] // of the latest handle
	breaker breaker

	gate    gate
	life    context.Context // ends when Close begins
	end     context.CancelFunc
	tasks   context.Context    // what clears up; ends when Close gives up
	abandon context.CancelFunc // ends the tasks
	closed  chan struct{}      // closed when Close has ended
	result  error              // of Close
}

// New returns a client of an engine, like goredis.New(rdb) or memory.New(). The
// engine may be shared by clients. Errors: a nil engine, ErrOption.
func New(e engine.Engine, opts ...Option) (*Client, error) {
	if e == nil {
		return nil, errors.New("holdfast: engine is nil: pass goredis.New(rdb) or memory.New()")
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
	c.life, c.end = context.WithCancel(context.Background())
	c.tasks, c.abandon = context.WithCancel(context.Background())
	c.mail.open(c)
	c.breaker.c = c
	return c, nil
}

// Mutex returns a handle on a resource that one holder at a time may hold. It
// costs nothing until it is used; handles of the same name are the same lock.
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex {
	return &Mutex{terms{kind: engine.KindMutex, capacity: 1, opts: lockOptionsOf(name, opts)}.on(c, name)}
}

// Close releases all leases, ends all waits with ErrClosed and returns when the
// goroutines of the client are gone, within 5 seconds if the store answers. The
// error names leases whose release the store did not confirm; they end by
// their TTL. The engine stays open. Further calls return the same.
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
	c.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	err := c.releaseAll(ctx)
	if !c.gate.wait(ctx) {
		c.abandon()
		late, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		c.gate.wait(late)
	}
	// A grant that was on its way when Close began may have been taken since.
	rest, cancel := context.WithTimeout(context.Background(), releaseGrace)
	defer cancel()
	err = errors.Join(err, c.releaseAll(rest))
	c.abandon()
	c.keep.Stop()
	c.mail.close()
	c.engine.Leave(c.info.ID)
	return err
}

// releaseAll ends all leases, tells their holders, and then gives them back.
func (c *Client) releaseAll(ctx context.Context) error {
	var (
		mu   sync.Mutex
		errs []error
		wg   sync.WaitGroup
		slot = make(chan struct{}, 32)
	)
	all := slices.DeleteFunc(c.mail.holdings(), func(h *holding) bool {
		leases, was := h.finish(nil)
		for _, l := range leases {
			_ = l.finish(ErrReleased)
		}
		h.vacate()
		return was == holdingEnded
	})
	for _, h := range all {
		slot <- struct{}{}
		wg.Go(func() {
			defer func() { <-slot }()
			if err := h.giveUp(ctx); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
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

// cleanup runs releases that must happen although nobody waits for them, until
// they are done, the budget for the TTL is over or the client is closed. The
// channel is closed when it ends.
func (c *Client) cleanup(ttl time.Duration, releases ...engine.Release) <-chan struct{} {
	return c.cleanupLater(0, ttl, releases...)
}

// cleanupLater is a cleanup that begins after a pause, or when the client is
// closed.
func (c *Client) cleanupLater(pause, ttl time.Duration, releases ...engine.Release) <-chan struct{} {
	ended := make(chan struct{})
	if !c.gate.join() {
		close(ended)
		return ended
	}
	go func() {
		defer c.gate.leave()
		defer close(ended)
		sleep(c.life, pause)
		ctx, cancel := context.WithTimeout(c.tasks, max(cleanupMin, min(ttl, cleanupMax)))
		defer cancel()
		for _, r := range releases {
			if err := c.insist(ctx, r); err != nil {
				c.log.Warn("holdfast: clean-up given up; the lease or wait ends by its TTL",
					"resource", r.Resource.Name, "error", err)
			}
		}
	}()
	return ended
}

// insist repeats a release until the store has answered.
func (c *Client) insist(ctx context.Context, r engine.Release) error {
	b := backoff{}
	for {
		call, cancel := context.WithTimeout(ctx, releaseGrace)
		err := c.engine.Release(call, r)
		cancel()
		var gone *engine.NotHeldError
		if err == nil || errors.As(err, &gone) || errors.Is(err, ErrDenied) {
			return nil // there is nothing left that could be cleaned up
		}
		if !b.pause(ctx) {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// backoff grows from 10 ms to 1 s, with jitter.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	d := min(10*time.Millisecond<<b.n, time.Second)
	if b.n < 10 {
		b.n++
	}
	return d/2 + mathrand.N(d)
}

// pause waits for the next time; it returns false when ctx ended.
func (b *backoff) pause(ctx context.Context) bool { return sleep(ctx, b.next()) }

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
