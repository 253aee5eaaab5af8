package memory

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// An Engine keeps queues of leases in memory. It need not be closed.
type Engine struct {
	mu        sync.Mutex
	resources map[engine.Resource]*resource
	sweepAt   int // number of resources at which those no longer needed are removed
	listeners map[address][]*subscriber
	histories map[string]*history // by prefix
}

var _ engine.Recaller = (*Engine)(nil)

// New returns an empty engine.
func New() *Engine {
	return &Engine{
		resources: make(map[engine.Resource]*resource),
		listeners: make(map[address][]*subscriber),
		histories: make(map[string]*history),
	}
}

// Acquire implements engine.Engine.
func (e *Engine) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if err := ended(ctx); err != nil {
		return engine.Answer{}, err
	}
	var post mail
	defer post.deliver()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock()
	res := e.open(r.Resource, now)
	a := res.queue.Acquire(translate.Request(r), now)
	for a.More && a.Status != queue.Granted { // the leases in the way may have expired
		e.post(&post, r.Resource.Prefix, a)
		a = res.queue.Acquire(translate.Request(r), now)
	}
	if a.Status == queue.Granted || a.Status == queue.Queued {
		res.meet(r.ID, r.Client, now)
	}
	if a.Status == queue.Busy && r.Queue && r.Turn.ID != "" {
		res.meet(r.Turn.ID, r.Client, now)
	}
	e.settle(&post, r.Resource.Prefix, res.queue, a, now)
	return translate.Answer(a, now, res.client)
}

// Renew implements engine.Engine.
func (e *Engine) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs := make([]error, len(batch))
	for i, r := range batch {
		errs[i] = e.change(ctx, r.Resource, e.look, func(q *queue.Queue, _ *mail, now queue.Time) queue.Answer {
			return q.Renew(r.ID, r.Token, translate.Micros(r.TTL), now)
		})
	}
	return errs
}

// Release implements engine.Engine.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	find := e.look
	if r.Withdraw {
		find = e.open // the tombstone must be stored
	}
	return e.change(ctx, r.Resource, find, func(q *queue.Queue, _ *mail, now queue.Time) queue.Answer {
		return q.Release(r.ID, r.Token, r.Withdraw, translate.Micros(r.Mark), now)
	})
}

// Resize implements engine.Engine.
func (e *Engine) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	return e.change(ctx, res, e.look, func(q *queue.Queue, _ *mail, now queue.Time) queue.Answer {
		return q.Resize(h.ID, h.Token, weight, now)
	})
}

// Break implements engine.Engine.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	return e.change(ctx, res, e.look, func(q *queue.Queue, post *mail, now queue.Time) queue.Answer {
		a := q.Break(queue.Break{ID: b.ID, Force: b.Force, Reason: b.Reason}, now)
		if a.Status == queue.Done {
			e.send(post, res.Prefix, engine.Wakeup{Kind: engine.WakeBroken, ID: b.ID, Reason: b.Reason})
		}
		return a
	})
}

// change applies an operation to the queue of a resource, which find returns, and sends the wake-ups.
func (e *Engine) change(ctx context.Context, res engine.Resource, find func(engine.Resource, queue.Time) *resource,
	apply func(q *queue.Queue, post *mail, now queue.Time) queue.Answer) error {
	if err := ended(ctx); err != nil {
		return err
	}
	var post mail
	defer post.deliver()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock()
	q := find(res, now).queue
	a := apply(q, &post, now)
	e.settle(&post, res.Prefix, q, a, now)
	return translate.Failure(a)
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	if err := ended(ctx); err != nil {
		return engine.Snapshot{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock()
	r := e.look(res, now)
	return translate.Snapshot(r.queue, res, now, r.client), nil
}

// Peek implements engine.Engine.
func (e *Engine) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	if err := ended(ctx); err != nil {
		return engine.Brief{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock()
	return translate.Brief(e.look(res, now).queue, res, now), nil
}

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	inUse := func(s engine.Snapshot) bool { return len(s.Holders)+len(s.Waiters) > 0 }
	return e.each(ctx, prefix, pattern, inUse)
}

// ListMarks implements engine.MarkLister.
func (e *Engine) ListMarks(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return e.each(ctx, prefix, pattern, func(s engine.Snapshot) bool { return s.Marked > 0 })
}

// each yields the resources that are wanted.
func (e *Engine) each(ctx context.Context, prefix, pattern string, wanted func(engine.Snapshot) bool) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := ended(ctx); err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		for _, s := range e.list(prefix, pattern, wanted) {
			if err := ended(ctx); err != nil {
				yield(engine.Snapshot{}, err)
				return
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Now implements engine.Engine. It returns the time of this process's clock.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := ended(ctx); err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(clock()), nil
}

// Leave implements engine.Engine. It does nothing: the engine discards what it
// keeps for a client with the client's last lease.
func (e *Engine) Leave(string) {}

// settle sends the wake-ups of an operation and completes its clean-up at once: in
// one process that delays no other work.
func (e *Engine) settle(m *mail, prefix string, q *queue.Queue, a queue.Answer, now queue.Time) {
	e.post(m, prefix, a)
	for a.More {
		a = q.Tidy(now)
		e.post(m, prefix, a)
	}
}

// ended returns the error of a call whose ctx has ended, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx))
}

// clock returns the store's time, which is this process's. It is called under
// the mutex, so operations are in the order of their times.
func clock() queue.Time { return time.Now().UnixMicro() }
