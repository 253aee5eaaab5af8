package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
)

// operator breaks leases while the workers run.
type operator struct {
	run   *run
	ctx   context.Context // ends with the work
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	ended  []broken // by force or not
	closes []func() // of its clients
}

// broken is a lease that an operator may have ended from an instant on.
type broken struct {
	force    bool
	at       time.Duration
	done     time.Duration // when it had; 0: that is not known, perhaps the break was never sent
	resource string
	holder   string // the name of its client; empty: unknown
	token    uint64
	store    string // its ID in the store; empty: not compared
}

// mostReserved is how many tokens are set aside with a grant, at most: a lease may
// be handed off with them in its process.
const mostReserved = 64

// operatorName is its name in histories.
const operatorName = "operator"

func newOperator(r *run) *operator {
	ctx, end := context.WithCancel(context.Background())
	return &operator{run: r, ctx: ctx, end: end}
}

// breakFirst breaks the first lease that it finds. The channel is closed when it has.
func (o *operator) breakFirst(resource string, by fault.Kind) <-chan struct{} {
	done := make(chan struct{})
	o.tasks.Go(func() {
		e, c, err := o.open()
		if err != nil {
			return // then no worker can do anything either
		}
		look := time.NewTicker(3 * time.Millisecond)
		defer look.Stop()
		for {
			if o.once(e, c, engine.Resource{Prefix: o.run.prefix, Name: resource}, by) {
				close(done)
				return
			}
			select {
			case <-look.C:
			case <-o.ctx.Done():
				return
			}
		}
	})
	return done
}

// open opens a client for one break, and the engine to look for a lease. What it records of the break must come into the
// store, which may be down now: close closes it.
func (o *operator) open() (engine.Engine, *holdfast.Client, error) {
	e, _, end, err := openEngine(o.run.urls(), nil)
	if err != nil {
		return nil, nil, err
	}
	opts := []holdfast.Option{holdfast.WithPrefix(o.run.prefix), holdfast.WithName(operatorName)}
	if o.run.p.History {
		opts = append(opts, holdfast.WithHistory(0))
	}
	c, err := holdfast.New(e, opts...)
	if err != nil {
		end()
		return nil, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closes = append(o.closes, func() { _ = c.Close(); end() }) // nothing is held
	return e, c, nil
}

// once reports whether it broke a lease.
func (o *operator) once(e engine.Engine, c *holdfast.Client, res engine.Resource, by fault.Kind) bool {
	ctx, cancel := context.WithTimeout(o.ctx, time.Second)
	defer cancel()
	s, err := e.Snapshot(ctx, res)
	s.Holders = slices.DeleteFunc(s.Holders, func(h engine.Holder) bool { return h.Breaking })
	if err != nil || len(s.Holders) == 0 {
		return false
	}
	h := s.Holders[0]
	f := broken{force: by == fault.ForceBreak, at: o.run.rec.Now(), resource: res.Name, holder: h.Client.Name, token: h.Token, store: h.ID}
	var opts []holdfast.BreakOption
	if f.force {
		opts = append(opts, holdfast.Force())
	}
	broke := c.Break(ctx, res.Name, h.ID, opts...) == nil
	if broke {
		f.done = o.run.rec.Now()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, f)
	return broke
}

// stop ends what is under way.
func (o *operator) stop() {
	o.end()
	o.tasks.Wait()
}

// close closes the clients, which write what they have recorded. It must follow stop.
func (o *operator) close() {
	for _, end := range o.closes {
		end()
	}
	o.closes = nil
}

// forcedReleases returns the releases by force, for the history: exclusion is not promised
// to the holders of these leases. A lease that is broken without force keeps others out
// until its holder has released it, so it needs no record.
func (o *operator) forcedReleases(ops []history.Op) []history.Op {
	return o.releases(ops, func(f broken) bool { return f.force }, "by force")
}

// breaks returns releases for the breaks without force that were answered, for the check that
// holders are notified of them.
func (o *operator) breaks(ops []history.Op) []history.Op {
	return o.releases(ops, func(f broken) bool { return !f.force && f.done != 0 }, "broken")
}

func (o *operator) releases(ops []history.Op, which func(broken) bool, note string) (out []history.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.ended {
		for _, op := range ops {
			if !which(f) || !f.covers(op) {
				continue
			}
			op.Client, op.Kind, op.Call, op.Return, op.Until, op.Note = operatorName, history.Release, f.at, f.done, 0, note
			if f.done == 0 {
				op.Return, op.Outcome = f.at, history.Unknown
			}
			out = append(out, op)
		}
	}
	return out
}

// broke reports whether the operator may have ended a granted lease before an instant.
func (o *operator) broke(grant history.Op, at time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.ended, func(f broken) bool { return f.at <= at && f.covers(grant) })
}

// brokeOf reports whether the operator may have ended a lease of a client before an instant.
func (o *operator) brokeOf(client, resource string, at time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.ended, func(f broken) bool {
		return f.at <= at && f.resource == resource && (f.holder == "" || f.holder == client)
	})
}

// covers reports whether a grant is of the lease. A shared lease is not handed off.
func (f broken) covers(op history.Op) bool {
	if op.Kind != history.Acquire || op.Outcome != history.OK || op.Resource != f.resource || f.holder != "" && op.Client != f.holder {
		return false
	}
	if f.store != "" && op.Store != "" && op.Store != f.store {
		return false // tokens that follow may be of another lease, where few are set aside
	}
	most := f.token
	if op.Capacity <= 1 || op.Weight >= op.Capacity {
		most += mostReserved
	}
	return op.Token >= f.token && op.Token <= most
}
