package holdfast

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/engine"
)

// ErrNoLeader: nobody leads at the moment.
var ErrNoLeader = errors.New("no leader")

// MaxValueLen is the longest value of a candidate, in bytes.
const MaxValueLen = 1024

// leadPause is the least time from the beginning of one term of Lead to the next
// campaign, so that a function that returns at once does not make a hot loop.
const leadPause = time.Second

// Election chooses one leader among candidates on whatever machines. It is a
// handle: safe for concurrent use, cheap, and the same election for every client
// that names the same resource. Candidates are served strictly first come, first
// served. A term is a lease: it is renewed until it is released, carries a fencing
// token greater than those of all terms before, and its context is cancelled
// before anybody else can lead. A name cannot be a Mutex and an Election at once
// (ErrMismatch).
type Election struct {
	acquirer
}

// Election returns a handle on an election. It costs nothing until it is used.
// WithReason has no effect: operators see the leader's value in its place.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	o := lockOptionsOf(name, opts)
	if o.fallback != FailClosed {
		o.fail(optionError("an Election has no fallback: without the store there could be several leaders"))
	}
	return &Election{lockSpec{kind: engine.KindElection, capacity: 1, opts: o}.on(c, name)}
}

// Campaign waits until the caller leads or ctx ends. To resign is to release the
// lease. The value tells others about the leader, for example its address: see
// Leader. It is at most MaxValueLen bytes of UTF-8, everybody who can read the
// store sees it, and it stays as it is for the term. Errors as for Mutex.Lock.
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	own := *e.lockSpec
	if len(value) > MaxValueLen || !utf8.ValidString(value) {
		own.opts.fail(optionError("value %.40q of %d bytes: use at most %d bytes of UTF-8", value, len(value), MaxValueLen))
	}
	own.opts.reason = value
	lk := acquirer{e.c, e.name, &own}
	return lk.lock(ctx, 1)
}

// Lead campaigns, runs fn while it leads, and campaigns again, until ctx ends. fn
// gets the Context of the lease, which is cancelled in time when leadership is
// lost, and LeaseFromContext gives fn the lease with its fencing token. How a term ends
// decides what follows:
//
//   - fn returns nil: Lead resigns and campaigns again, behind the candidates that
//     wait. Terms of one Lead begin a second apart or more.
//   - fn returns an error: Lead resigns and returns that error.
//   - Leadership is lost: Lead waits for fn to return, whatever it returns (an
//     error other than that of its ctx is logged), and campaigns again.
//   - ctx ends: Lead waits for fn, resigns, and returns an error that is the cause
//     of ctx, and the error of fn as well if that is another.
//   - fn panics: Lead resigns and passes the panic on.
//
// A place in the queue that an operator broke is taken again at the end of the
// queue. Errors besides are those of Campaign.
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context) error) error {
	for {
		l, err := e.Campaign(ctx, value)
		pause := time.NewTimer(leadPause + rand.N(leadPause/10))
		switch {
		case err == nil:
			err = e.term(ctx, l, fn)
		case endedBy(err, errBrokenWait):
			err = nil
		}
		if err == nil {
			e.rest(ctx, pause)
		}
		pause.Stop()
		if err != nil {
			return err
		}
	}
}

// term runs fn under the lease and resigns. It returns nil to go on.
func (e *Election) term(ctx context.Context, l *Lease, fn func(context.Context) error) error {
	// What the store does not confirm goes on in the background.
	defer func() { _ = l.Release(ctx) }()
	own := l.Context()
	err := fn(own)
	if own.Err() != nil && (errors.Is(err, own.Err()) || errors.Is(err, context.Cause(own))) {
		err = nil // fn only says that its ctx has ended
	}
	switch {
	case ctx.Err() != nil:
		return opError("lead", e.name, errors.Join(context.Cause(ctx), err))
	case errors.Is(l.Err(), ErrLost) || e.c.life.Err() != nil:
		if err != nil {
			e.c.log.Warn("holdfast: what led returned an error after leadership was lost", "resource", e.name, "error", err)
		}
		return nil
	}
	return err
}

// rest waits for the timer, unless there is no next term.
func (e *Election) rest(ctx context.Context, t *time.Timer) {
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-e.c.life.Done():
	}
}

// Leader is who leads, by the store's word.
type Leader struct {
	Value    string    // as given to Campaign
	HolderID string    // identity of the term
	Token    uint64    // fencing token of the term; 0: nobody leads
	Since    time.Time // by the store's clock
}

// Leader asks the store who leads. The answer may be out of date when it comes;
// whoever acts on it sends Token along. Errors: ErrNoLeader; ErrMismatch if the
// name is held as something else; ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, _, err := e.look(ctx)
	if err == nil && l.Token == 0 {
		err = opError("leader of", e.name, ErrNoLeader)
	}
	return l, err
}

// look asks who leads, and says when to ask again.
func (e *Election) look(ctx context.Context) (Leader, time.Duration, error) {
	if e.opts.err != nil {
		return Leader{}, 0, e.opts.err
	}
	b, err := e.c.peek(ctx, e.name)
	switch {
	case err != nil:
		return Leader{}, 0, opError("leader of", e.name, err)
	case (len(b.Holders) > 0 || b.More) && b.Kind != engine.KindElection:
		return Leader{}, 0, opError("leader of", e.name, ErrMismatch)
	}
	again := engine.PollInterval - engine.PollInterval/10 + rand.N(engine.PollInterval/5)
	if len(b.Holders) == 0 {
		if b.Waiting > 0 {
			again /= 10 // one of them leads soon
		}
		return Leader{}, again, nil
	}
	h := b.Holders[0]
	again = min(again, h.TTL+time.Millisecond+rand.N(10*time.Millisecond))
	return Leader{Value: h.Reason, HolderID: h.ID, Token: h.Token, Since: h.Since}, again, nil
}

// Observe yields who leads now, and then every change; a Leader with Token 0 says
// that nobody leads. A change is seen within about a second, and at once if the
// leader's TTL runs out; what lasts shorter may be passed over, but tokens only
// increase. While the store cannot be reached nothing is yielded. The sequence
// ends with ctx, without an error; any other error is its last element, as for
// Leader. It runs in the caller's goroutine and holds nothing between elements.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		life, cancel := until(ctx, e.c.life)
		defer cancel()
		var last Leader
		var slow backoff
		for first := true; ; {
			call, done := context.WithTimeout(life, askTimeout)
			now, again, err := e.look(call)
			done()
			switch {
			case ctx.Err() != nil:
				return
			case e.c.life.Err() != nil:
				yield(Leader{}, opError("observe", e.name, ErrClosed))
				return
			case errors.Is(err, ErrUnavailable):
				again = slow.next()
			case err != nil:
				yield(Leader{}, err)
				return
			default:
				slow = backoff{}
				if (first || now.HolderID != last.HolderID || now.Token != last.Token) && !yield(now, nil) {
					return
				}
				first, last = false, now
			}
			t := time.NewTimer(again)
			e.rest(ctx, t)
			t.Stop()
		}
	}
}
