package cas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// retention is how long the tombstones and the last token of a resource are
// kept after its last use.
const retention = 10 * time.Minute

// DefaultTimeout bounds one call of a store whose ctx does not end.
const DefaultTimeout = 5 * time.Second

// An Engine keeps queues of leases as documents of a store. It need not be
// closed, has no goroutines while it is not used, and shares its locks with every
// engine on the same store.
type Engine struct {
	store     DocumentStore
	timed     bool         // the store is a TimedStore
	lagging   bool         // the store is a LaggingStore
	paced     PacedStore   // nil if the store is none
	witnesses WitnessStore // nil if the store is none
	timeout   time.Duration
	params    queue.Params

	witnessing chan struct{} // has an element for each witness that is being made

	clock   clockEstimate
	writers writers
	polls   polls
	beats   beats
	history historyWriter

	proposing proposing
	reads     *groupedCall[Read, Doc]
	swaps     *groupedCall[Change, Outcome]
}

var (
	_ engine.MarkLister = (*Engine)(nil)
	_ engine.Checker    = (*Engine)(nil)
)

// New returns an engine on a store. A timeout of 0 is DefaultTimeout.
func New(s DocumentStore, timeout time.Duration) *Engine {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	e := &Engine{store: s, timeout: timeout, params: translate.Params(retention)}
	e.params.Portion = maxDocument // clearing up costs this process, not the store
	_, e.timed = s.(TimedStore)
	_, e.lagging = s.(LaggingStore)
	e.paced, _ = s.(PacedStore)
	e.witnesses, _ = s.(WitnessStore)
	e.witnessing = make(chan struct{}, witnessesAtOnce)
	e.writers.all = make(map[Key]*writer)
	e.polls.latest, e.polls.asked = make(map[string]poll), make(map[string]int)
	e.proposing.waiting, e.proposing.sent = make(map[string]chan struct{}), make(map[string]time.Time)
	e.beats.own = make(map[Address]*beat)
	e.beats.others = make(map[Address]heard)
	e.history.turn = make(chan struct{}, 1)
	e.reads, e.swaps = newGroupedCall(e.readAll, timeout), newGroupedCall(e.swapAll, timeout)
	e.swaps.refused = func(o Outcome) bool { return o.Locked }
	return e
}

// Check implements engine.Checker.
func (e *Engine) Check() error {
	if c, ok := e.store.(interface{ Check() error }); ok {
		return c.Check()
	}
	return nil
}

// Acquire implements engine.Engine.
func (e *Engine) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	op := &operation{id: r.ID, client: r.Client, joins: true, urgent: r.Yields.ID != "", apply: acquisition(r)}
	if r.Queue {
		if op.line = r.ID; r.Ballot != 0 {
			op.line = r.Turn.ID
		} else if r.Client != nil && !op.urgent {
			op.request = &r
		}
	}
	e.polls.begin(op.line)
	defer e.polls.end(op.line)
	err := e.do(ctx, r.Resource, op)
	if err == nil || errors.Is(err, engine.ErrMismatch) {
		e.leave(ctx, r.Resource, op)
	}
	if err != nil {
		return engine.Answer{}, err
	}
	if op.waiting() {
		e.waits(r.Resource.Prefix, op.line, op.answer.Position)
		e.beat(ctx, Address{Prefix: r.Resource.Prefix, Client: engine.ClientOf(op.line)})
	} else {
		e.waits(r.Resource.Prefix, r.ID, -1)
	}
	return translate.Answer(op.answer, op.now, func(string) engine.Client { return op.holder })
}

// acquisition returns the operation of a request on a queue.
func acquisition(r engine.Request) func(q *queue.Queue, at instant) queue.Answer {
	request := translate.Request(r)
	return func(q *queue.Queue, at instant) queue.Answer {
		padded := request
		padded.TTL += at.pad
		return q.Acquire(padded, at.now)
	}
}

// waits reports to a PacedStore whether a party waits.
func (e *Engine) waits(prefix, holderID string, ahead int) {
	if e.paced != nil {
		e.paced.Waits(Address{Prefix: prefix, Client: engine.ClientOf(holderID)}, holderID, ahead)
	}
}

// renewedAtOnce is how many leases one Renew renews at the same time.
const renewedAtOnce = 128

// Renew implements engine.Engine.
func (e *Engine) Renew(ctx context.Context, batch []engine.Renewal) []error {
	errs := make([]error, len(batch))
	ops := make([]*operation, len(batch))
	slots := make(chan struct{}, renewedAtOnce)
	for i, r := range batch {
		ops[i] = &operation{id: r.ID, urgent: true, apply: func(q *queue.Queue, at instant) queue.Answer {
			return q.Renew(r.ID, r.Token, translate.Micros(r.TTL)+at.pad, at.now)
		}}
		select {
		case slots <- struct{}{}:
			ops[i].slots = slots
		case <-ctx.Done(): // so the operation fails
		}
		e.start(ctx, r.Resource, ops[i])
	}
	for i, op := range ops {
		errs[i] = op.wait(ctx)
	}
	return errs
}

// Release implements engine.Engine.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	e.waits(r.Resource.Prefix, r.ID, -1)
	withdraw := e.proposing.has(r.ID) && r.Token == 0 || r.Withdraw
	op := &operation{id: r.ID, urgent: true, leaves: r.Token == 0, apply: func(q *queue.Queue, at instant) queue.Answer {
		return q.Release(r.ID, r.Token, withdraw, translate.Micros(r.Mark), at.now)
	}}
	if err := e.do(ctx, r.Resource, op); err != nil {
		return err
	}
	e.proposing.forget(r.ID)
	e.leave(ctx, r.Resource, op)
	return nil
}

// Resize implements engine.Engine.
func (e *Engine) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	return e.do(ctx, res, &operation{id: h.ID, urgent: true, apply: func(q *queue.Queue, at instant) queue.Answer {
		return q.Resize(h.ID, h.Token, weight, at.now)
	}})
}

// Break implements engine.Engine.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	victim := b.ID
	if victim == engine.MarkID {
		victim = ""
	}
	return e.do(ctx, res, &operation{broken: victim, reason: b.Reason, unmarks: victim == "", urgent: true, apply: func(q *queue.Queue, at instant) queue.Answer {
		return q.Break(queue.Break{ID: b.ID, Force: b.Force, Reason: b.Reason}, at.now)
	}})
}

// Now implements engine.Engine. Without a clock of the store it is the time of
// this machine.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	if err := ended(ctx); err != nil {
		return time.Time{}, err
	}
	c, ok := e.store.(TimedStore)
	if !ok {
		return time.Now(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	sent := time.Now()
	at, err := c.Now(ctx)
	if err != nil {
		return time.Time{}, failure(err)
	}
	e.clock.read(at, sent)
	return at, nil
}

// Listen implements engine.Engine.
func (e *Engine) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	resync := func() { deliver(engine.Wakeup{Kind: engine.Resync}) }
	receive := func(body []byte) {
		w, proposed, err := e.wakeup(body)
		if err != nil {
			resync()
			return
		}
		if proposed != nil {
			e.proposed(prefix, proposed)
			return
		}
		if e.proposing.end(w.ID) && w.Kind == engine.Resync {
			return
		}
		if w.Kind != engine.Resync {
			e.waits(prefix, w.ID, -1)
		}
		if key, ok := e.polls.key(w.ID); ok && w.Kind == engine.WakeGrant {
			e.writers.granted(key, w.ID)
		}
		deliver(w)
	}
	l, err := e.store.Listen(ctx, Address{Prefix: prefix, Client: client}, receive, resync)
	if err != nil {
		return nil, failure(err)
	}
	return l, nil
}

// Leave implements engine.Engine. What the engine keeps in memory for a client is dropped
// when it is old.
func (e *Engine) Leave(string) {}

// ended returns the error of a call whose ctx has ended, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx))
}

// failure returns a store's error as the contract has it.
func failure(err error) error {
	if errors.Is(err, engine.ErrDenied) || errors.Is(err, engine.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
}
