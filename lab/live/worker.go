package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// Serve turns the program into a worker if it was started as one, and then returns
// true when its input has ended. Call it first in main or TestMain.
//
// The catalog has the locks that workers may use.
func Serve(catalog subject.Catalog) bool {
	if os.Getenv(env) == "" {
		return false
	}
	logging.Disable() // what matters comes back as errors
	serve(catalog, os.Stdin, os.Stdout)
	return true
}

// worker is the inside of a worker process.
type worker struct {
	opening
	catalog subject.Catalog
	client  lockClient
	clock   *process.Clock // nil: the machine's
	load    *workload.Worker
	hands   sync.WaitGroup
	pools   poolLoad
	latches latchNames
	rest    context.CancelFunc
	still   context.CancelFunc // ends its pulse

	silences []*redistest.Silence // of the nodes, from orderCalm on
	closing  time.Time

	stops stops

	write sync.Mutex // of lines
	out   *json.Encoder

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan order
	live    []held // what it holds, or held and did not release
}

// held is a hold with the record of its acquire.
type held struct {
	op   history.Op
	hold workload.Hold
}

func serve(catalog subject.Catalog, in io.Reader, out io.Writer) {
	w := &worker{catalog: catalog, out: json.NewEncoder(out), waiting: map[uint64]chan order{}}
	process.ReadLines(in, func(o order) {
		if o.Do == orderReply {
			w.replied(o)
			return
		}
		// In a goroutine: what it waits for may come by this very input.
		go func() {
			r := report{Did: o.Do}
			if err := w.do(o); err != nil {
				r.Err = err.Error()
			}
			if o.Do == orderClose {
				r.Silent = stopSilences(w.silences, w.closing)
			}
			w.send(r)
		}()
	})
}

// send writes one line. If the lab reads no more, the input will end too.
func (w *worker) send(r report) {
	w.write.Lock()
	defer w.write.Unlock()
	_ = w.out.Encode(r)
}

// exchange sends a report and waits for the reply.
func (w *worker) exchange(r report) order {
	reply := make(chan order, 1)
	w.mu.Lock()
	w.last++
	r.ID = w.last
	w.waiting[r.ID] = reply
	w.mu.Unlock()
	w.send(r)
	return <-reply
}

func (w *worker) replied(o order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reply := w.waiting[o.ID]; reply != nil {
		delete(w.waiting, o.ID)
		reply <- o
	}
}

func (w *worker) do(o order) error {
	switch o.Do {
	case orderOpen:
		return w.open(*o.Open)
	case orderWork:
		ctx, rest := context.WithCancel(context.Background())
		w.rest = rest
		pulse, still := context.WithCancel(context.Background())
		w.still = still
		go beat(pulse, w.load.Rec.Now, func(from, to time.Duration) { w.send(report{Stall: &span{from, to}}) })
		go ownThreads().watch(pulse, w.load.Rec.Now, func(from, to time.Duration) { w.send(report{Stall: &span{from, to}, Kind: thread}) })
		for hand := range w.Program.Hands {
			w.hands.Go(func() { w.work(ctx, hand) })
		}
		for _, r := range w.Program.Resources {
			if r.Kind == Election {
				w.hands.Go(func() { w.observe(ctx, r.Name) })
			}
		}
		return nil
	case orderStep:
		return w.clock.Step(o.By)
	case orderTake:
		w.pools.exhaust(w.client.pools())
		return nil
	case orderFree:
		w.pools.relieve()
		return nil
	case orderRest:
		w.stops.end()
		w.rest()
		w.hands.Wait()
		return nil
	case orderCalm:
		if len(w.Nodes) > 1 {
			var err error
			if w.silences, err = watchSilences(w.Nodes); err != nil {
				return err
			}
		}
		w.recheck()
		return nil
	case orderClose:
		w.closing = time.Now()
		w.pools.relieve()
		defer w.still()
		return w.client.close()
	}
	return fmt.Errorf("unknown order %q", o.Do)
}

func (w *worker) open(o opening) error {
	w.opening = o
	if o.Steps == ClockSteps { // before anything looks at it
		var err error
		if w.clock, err = process.OpenClock(); err != nil {
			return err
		}
	}
	start, err := here(o.Start)
	if err != nil {
		return err
	}
	rec := history.NewReporter(start, func(op history.Op) { w.send(report{Op: &op}) })
	w.load = &workload.Worker{Name: o.Name, Rec: rec, Vault: w, Step: w.step, Took: w.took}
	w.stops.begin(o.Stops, func(r report) { w.send(r) })
	w.client, err = openClient(o, w.catalog, w.renewed, w.stops.reached, func(c net.Conn) net.Conn {
		return &timedConn{Conn: c, late: w.late}
	})
	return err
}

// observe reports the leaders of an election, until ctx ends.
func (w *worker) observe(ctx context.Context, name string) {
	for leader, err := range w.client.(*holdfastClient).c.Election(name).Observe(ctx) {
		if err != nil {
			w.trouble("errors", name, "%s, which observes the election, got: %v", w.Name, err)
			return
		}
		now := w.load.Rec.Now()
		w.load.Rec.Add(history.Op{Client: w.Name, Kind: history.Seen, Resource: name, Call: now, Return: now, Outcome: history.OK,
			Token: leader.Token, Store: leader.HolderID, Note: leader.Value})
	}
}

// late reports a round trip.
func (w *worker) late(from, to time.Time) {
	w.send(report{Stall: &span{w.load.Rec.At(from), w.load.Rec.At(to)}, Kind: trip})
}

// Access implements workload.Vault: the vault is with the lab, which records.
func (w *worker) Access(_ context.Context, op history.Op) (history.Op, error) {
	o := w.exchange(report{Access: &op})
	return *o.Op, nil
}

// step reports the points that the faults are about, and waits. A worker that is killed there
// gets no reply.
func (w *worker) step(_ context.Context, name string) error {
	if slices.Contains(w.Points, name) {
		w.exchange(report{Point: name})
	}
	return nil
}

// took remembers holds, whose renewals are written down.
func (w *worker) took(op history.Op, h workload.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live = append(slices.DeleteFunc(w.live, func(o held) bool { return o.hold.Err() != nil }), held{op, h})
}

// renewed writes down how far the windows on a resource have come: a worker that
// is killed soon after cannot do it any more.
func (w *worker) renewed(resource string) {
	w.mu.Lock()
	var ops []history.Op
	for _, h := range w.live {
		if h.op.Resource != resource || h.hold.Err() != nil {
			continue
		}
		op := h.op
		op.Kind, op.Call, op.Until, op.Weight = history.Renew, w.load.Rec.Now(), w.load.Rec.At(h.hold.Until()), 0
		op.Return = op.Call
		ops = append(ops, op)
	}
	w.mu.Unlock()
	for _, op := range ops {
		w.load.Rec.Add(op)
	}
}

// trouble reports what should not be.
func (w *worker) trouble(check, resource, format string, args ...any) {
	w.send(report{Trouble: fmt.Sprintf(format, args...), Check: check, Name: resource})
}

// passing reports whether an error is expected.
func (w *worker) passing(err error) bool {
	return w.client.expected(err) || errors.Is(err, workload.ErrStale) || errors.Is(err, workload.ErrLost) || errors.Is(err, errOnPurpose)
}

// troubled reports an error of a call that began at an instant: as one that needs a fault that
// explains it, if faults cause such errors.
func (w *worker) troubled(resource string, from time.Duration, err error) {
	r := report{Trouble: fmt.Sprintf("%s got: %v", w.Name, err), Check: "errors", Name: resource}
	if w.client.passing(err) {
		r.Excuse = &span{from, w.load.Rec.Now()}
	}
	w.send(r)
}
