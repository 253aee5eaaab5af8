package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// round is one caller's turn.
type round struct {
	Resource
	way        Way
	weight     int
	parts      []string // of a Multi
	wait, hold time.Duration
	retry      bool // of a slot: failures are made up for
	fail       bool // of a slot
	job        bool // of a slot: a Job, else a Once
}

// work does rounds until ctx ends.
func (w *worker) work(ctx context.Context, hand int) {
	d := drawer{rand.New(rand.NewPCG(w.Program.Seed, w.Place<<8|uint64(hand)))}
	for ctx.Err() == nil {
		r, from := d.round(w.Program), w.load.Rec.Now()
		if r.way == Linger && d.IntN(3) > 0 { // a lease is kept for the process that wants it again
			r.Resource = w.Program.Resources[w.Place%uint64(len(w.Program.Resources))]
		}
		if err := w.turn(ctx, r); err != nil && !w.passing(err) && ctx.Err() == nil {
			w.troubled(r.Name, from, err)
		}
		pause := time.NewTimer(drawn(d, 0, 0, time.Millisecond, d.between(0, 20*time.Millisecond)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

func (d drawer) round(p Program) round {
	r := round{
		Resource: drawn(d, p.Resources...), way: drawn(d, p.Ways...), weight: 1 + d.IntN(3),
		wait:  drawn(d, d.between(5*time.Millisecond, 100*time.Millisecond), d.between(100*time.Millisecond, 1500*time.Millisecond)),
		hold:  drawn(d, 0, 0, d.between(0, 3*time.Millisecond), d.between(0, 20*time.Millisecond), d.between(0, p.TTL*3/2)),
		retry: d.IntN(2) == 0, fail: d.IntN(4) == 0, job: d.IntN(2) == 0,
	}
	if !p.holdfast() {
		r.hold /= 6 // not all locks renew by themselves: work ends well within the TTL
	}
	if r.Kind == Several {
		r.parts = r.names()
		d.Shuffle(len(r.parts), func(i, j int) { r.parts[i], r.parts[j] = r.parts[j], r.parts[i] })
		r.parts = r.parts[:min(len(r.parts), 1+r.weight)]
	}
	return r
}

func (w *worker) turn(ctx context.Context, r round) error {
	brief, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	if r.Kind == Slot {
		return w.slot(brief, r)
	}
	if r.Kind == Latch {
		return w.latch(brief, r)
	}
	err := w.once(brief, r, func() {})
	if brief.Err() != nil && errors.Is(err, context.Cause(brief)) {
		return nil // the wait was over, in a request or between two
	}
	return err
}

// once acquires what a round says, works and releases it. It calls got when it has acquired.
func (w *worker) once(ctx context.Context, r round, got func()) error {
	if r.Kind == Several {
		var places []workload.Place
		for _, name := range r.parts {
			places = append(places, workload.Place{Resource: name, Try: r.way == Try})
		}
		return w.load.Several(ctx, places, func(ctx context.Context) ([]workload.Hold, error) {
			all, err := w.client.(*holdfastClient).several(ctx, r)
			if err == nil {
				got()
			}
			return all, err
		}, workload.CounterEach(r.hold))
	}
	if r.Kind == Cond {
		return w.cond(ctx, r, got)
	}
	at, work := r.work()
	at.Try = r.way == Try && r.Kind != Election
	return w.load.Round(ctx, at, func(ctx context.Context) (workload.Hold, error) {
		h, err := w.client.take(ctx, r)
		if err == nil {
			got()
		}
		return h, err
	}, work)
}

// work is what a round does under its lock, and how much of it that takes.
func (r round) work() (workload.Place, workload.Work) {
	at := workload.Place{Resource: r.Name}
	switch r.Kind {
	case Stock:
		return at, workload.Sell(r.hold)
	case Log:
		return at, workload.Append(r.hold)
	case Semaphore:
		at.Weight, at.Capacity = r.weight, capacity
		return at, workload.Stand(r.hold)
	case Pair:
		return workload.Pair(r.Name, r.weight, r.hold)
	}
	return at, workload.Counter(r.hold)
}

// slot runs work that is to be done once a slot.
func (w *worker) slot(ctx context.Context, r round) error {
	m := w.client.(*holdfastClient)
	id := fmt.Sprintf("%s/once/%d", r.Name, w.load.Rec.Now()/slotLength)
	slot := workload.Slot{Resource: id}
	var opts []holdfast.JobOption
	if r.job {
		id, opts = r.Name+"/again", []holdfast.JobOption{holdfast.RetryFailed()}
		if !r.retry {
			id, opts = r.Name+"/job", []holdfast.JobOption{}
			slot.Begins = workload.BeginsOnce
		}
	}
	slot.Name = func(ctx context.Context) string {
		name, token := running(ctx)
		if token == 0 {
			w.trouble("tokens", name, "%s runs without a token", w.Name)
		}
		op := history.Op{Client: w.Name, Kind: history.Run, Resource: name, Call: w.load.Rec.Now(), Outcome: history.Failed}
		if slot.Begins == workload.BeginsOnce {
			op.Note = check.Once
		}
		w.send(report{Begun: &op})
		return name
	}
	var fail error
	if r.fail {
		fail = errOnPurpose
	}
	err := w.load.Once(ctx, slot, r.hold, fail, func(ctx context.Context, fn func(context.Context) error) (bool, error) {
		return m.slot(ctx, id, opts, fn)
	})
	slotEnded := r.job && errors.Is(err, holdfast.ErrNotAcquired)
	if slotEnded || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// recheckTimeout is how long a worker waits after the faults: longer than dead workers may
// cost, which is a claim window of 3 s, a TTL and a poll, and above what
// go-redis takes to find a server again.
const recheckTimeout = 12 * time.Second

// recheck acquires everything once more.
func (w *worker) recheck() {
	ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
	defer cancel()
	for _, resource := range w.Program.Resources {
		if resource.Kind == Slot {
			continue
		}
		r := round{Resource: resource, way: Plain, weight: 2, parts: resource.names()}
		if resource.Kind == Semaphore {
			r.weight = capacity
		}
		for got := false; !got; {
			if resource.Kind == Latch {
				got = w.recheckLatch(ctx, r)
				continue
			}
			err := w.once(ctx, r, func() { got = true })
			if ctx.Err() != nil && !got {
				w.trouble("stuck", r.Name, "%s did not get it in %v when all was well again: %v", w.Name, recheckTimeout, err)
				return
			}
			if err != nil && !w.passing(err) && !w.client.passing(err) {
				w.trouble("errors", r.Name, "when all was well again %s got: %v", w.Name, err)
				return
			}
		}
	}
}
