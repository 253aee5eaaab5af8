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

// ErrNoLeader: the election has no leader at present.
var ErrNoLeader = errors.New("no leader")

// MaxValueLen is the maximum length of a candidate's value, in bytes.
const MaxValueLen = 1024

// leadPause is the minimum time from the beginning of a term of Lead to the
// next campaign, so that a function that returns at once does not cause a busy
// loop.
const leadPause = time.Second

// An Election chooses one leader among candidates. It is a handle: safe for
// concurrent use, cheap, and the same election for every client that uses the
// same resource name. Candidates are served strictly first come, first served.
// A term is a lease: it is renewed until it is released, has a fencing token
// greater than those of all earlier terms, and its Context is cancelled before
// another candidate can lead. A name cannot be a Mutex and an Election at the
// same time (ErrMismatch).
type Election struct {
	acquirer
}

// Election returns a handle for an election. It makes no call to the store.
// WithReason has no effect: operators see the leader's value instead.
func (c *Client) Election(name string, opts ...LockOption) *Election {
	o := lockOptionsOf(name, opts)
	if o.fallback != FailClosed {
		o.fail(optionError("an Election has no fallback: without the store there could be several leaders"))
	}
	return &Election{lockSpec{kind: engine.KindElection, capacity: 1, opts: o}.on(c, name)}
}

// Campaign waits until the caller is the leader or ctx ends. To resign, release
// the lease. value describes the leader to others, for example by its address;
// see [Election.Leader]. It is at most MaxValueLen bytes of UTF-8, visible to
// everyone who can read the store, and fixed for the term. Errors are those of
// [Mutex.Lock].
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	own := *e.lockSpec
	if len(value) > MaxValueLen || !utf8.ValidString(value) {
		own.opts.fail(optionError("value %.40q of %d bytes: use at most %d bytes of UTF-8", value, len(value), MaxValueLen))
	}
	own.opts.reason = value
	lk := acquirer{e.c, e.name, &own}
	return lk.acquire(ctx, 1, andWait)
}

// Lead campaigns, calls fn while it leads, and campaigns again, until ctx ends.
// fn gets the lease's Context, which is cancelled in time if leadership is
// lost; LeaseFromContext returns the lease with its fencing token. What follows
// depends on how the term ends:
//
//   - fn returns nil: Lead resigns and campaigns again, behind the waiting
//     candidates. Terms of one Lead begin at least a second apart.
//   - fn returns an error: Lead resigns and returns that error.
//   - Leadership is lost: Lead waits until fn returns and campaigns again. It
//     logs the error of fn unless that is the error of the Context.
//   - ctx ends: Lead waits until fn returns, resigns, and returns an error that
//     matches the cause of ctx, and the error of fn if that is a different one.
//   - fn panics: Lead resigns and lets the panic continue.
//
// If an operator breaks the wait of a candidate, it campaigns again at the end
// of the queue. Other errors are those of Campaign.
func (e *Election) Lead(ctx context.Context, value string, fn func(ctx context.Context) error) error {
	for {
		l, err := e.Campaign(ctx, value)
		began := time.Now()
		switch {
		case err == nil:
			err = e.term(ctx, l, fn)
		case endedByBreak(err):
			err = nil
		}
		if err != nil {
			return err
		}
		e.c.sleep(ctx, leadPause+rand.N(leadPause/10)-time.Since(began))
	}
}

// term calls fn under the lease and resigns. It returns nil if Lead continues.
func (e *Election) term(ctx context.Context, l *Lease, fn func(context.Context) error) error {
	// If the store does not confirm it, the client retries in the background.
	defer func() { _ = l.Release(ctx) }()
	own := l.Context()
	err := fn(own)
	if own.Err() != nil && (errors.Is(err, own.Err()) || errors.Is(err, context.Cause(own))) {
		err = nil // fn returned the error of its ctx
	}
	switch {
	case ctx.Err() != nil:
		return opError("lead", e.name, errors.Join(context.Cause(ctx), err))
	case errors.Is(l.Err(), ErrLost) || e.c.life.Err() != nil:
		if err != nil {
			e.c.log.Warn("holdfast: the function of Lead returned an error after leadership was lost", "resource", e.name, "err", err)
		}
		return nil
	}
	return err
}

// A Leader describes the leader of an election, as stored.
type Leader struct {
	Value    string    // as given to Campaign
	HolderID string    // identity of the term
	Token    uint64    // fencing token of the term; 0: there is no leader
	Since    time.Time // by the store's clock
}

// Leader returns the present leader. The result may be out of date when it
// arrives: send its Token with every action that relies on it. On a quorum it
// may also be a candidate whose votes are still arriving, or that a majority
// can have elected as far as the nodes that answered show. Errors:
// ErrNoLeader; ErrMismatch if the name is in use as another kind;
// ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, _, err := e.look(ctx)
	if err == nil && l.Token == 0 {
		err = opError("leader of", e.name, ErrNoLeader)
	}
	return l, err
}

// look returns the present leader and the time until the next look.
func (e *Election) look(ctx context.Context) (Leader, time.Duration, error) {
	if e.opts.err != nil {
		return Leader{}, 0, e.opts.err
	}
	b, err := e.c.peek(ctx, e.name)
	switch {
	case err != nil:
		return Leader{}, 0, opError("leader of", e.name, err)
	case (len(b.Holders) > 0 || b.More) && b.Kind != engine.KindElection:
		return Leader{}, 0, opError("leader of", e.name, mismatchWith(b, usage{engine.KindElection, 1}))
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
	return Leader{Value: visible(h.Reason), HolderID: h.ID, Token: h.Token, Since: h.Since}, again, nil
}

// Observe yields the present leader, and then every change. A Leader with Token
// 0 means that there is none. A change is seen within about a second, and at
// once if the leader's TTL runs out. A shorter term may be missed, but tokens
// only increase. On a store without a clock (etcd, ZooKeeper) a term whose lease
// is claimed or renewed late may be seen again after Token 0, if nobody else has
// been elected. After a failover an earlier term may be seen again, if the new
// master does not have the latest one; with goredis.WithReplicas no candidate was
// told of that one. While the store is unavailable Observe yields nothing. The
// sequence ends with ctx, without an error; any other error, as for
// [Election.Leader], is its last element. It runs in the caller's goroutine and
// holds no resources between elements.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		life, cancel := until(ctx, e.c.life)
		defer cancel()
		var last Leader
		var slow backoff
		for first := true; ; {
			call, done := context.WithTimeout(life, requestTimeout)
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
			e.c.sleep(ctx, again)
		}
	}
}
