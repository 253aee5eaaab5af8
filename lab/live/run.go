package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// run is one program on its way.
type run struct {
	p       Program
	prefix  string
	rec     *history.Recorder
	start   time.Duration // on the shared clock
	vault   *workload.Memory
	stores  []*store
	live    *fault.Live
	inj     *fault.Injector
	faults  fault.Schedule
	workers []*workerProcess
	stderr  output
	ops     *operator

	epoch     time.Time // the start
	ledgers   []*ledger.Ledger
	roles     *roles             // of the servers of a store with replicas that take over; nil: of none
	recording []ledger.Recording // of the ledgers that are open
	recorded  Recorded           // what was compared with the history in the stores
	command   string             // see Runner.Command

	began    time.Duration  // when the faults began, in the history
	watchers sync.WaitGroup // of the stores

	mu         sync.Mutex
	violations []check.Violation
	excuses    []excuse
	stalled    []Stall
	byStall    int // losses and errors that only a stall explains; of the judge
}

// output is what workers write to standard error.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// runLimit bounds a run; one takes some seconds.
const runLimit = time.Minute

// Play plays a program once. An error means that the run shows nothing: a fault
// was never hit, a server did not start, a worker died by itself.
func (l *Runner) Play(ctx context.Context, p Program) (Result, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	r, err := l.prepare(ctx, p)
	if err != nil {
		return Result{Program: p}, errors.Join(err, r.end(ctx))
	}
	err = r.play(ctx)
	err = errors.Join(err, r.end(ctx))
	if unsure := r.roles.unsure(); err == nil && unsure != nil {
		err = fmt.Errorf("%w: %w", ErrMissed, unsure)
	}
	res := r.result(began, err == nil)
	// Whether a worker comes to a point of its client depends on its schedule.
	if missed := slices.DeleteFunc(r.inj.Missed(), atPoint); err == nil && len(missed) > 0 {
		err = fmt.Errorf("%w: %s", ErrMissed, strings.TrimSpace(missed.String()))
	}
	return res, err
}

// ErrMissed: a fault was never hit, or a busy machine kept the lab from looking, so the run shows nothing.
var ErrMissed = errors.New("a fault that was never hit, or a server that the lab did not see")

// prepare makes stores, connections and workers ready. The run is never nil.
func (l *Runner) prepare(ctx context.Context, p Program) (*run, error) {
	r := &run{p: p, command: l.Command, prefix: fmt.Sprintf("lab-%x", rand.Uint64()), live: &fault.Live{
		Processes: map[string]fault.Process{}, Clocks: map[string]func(time.Duration) error{}, Stores: map[string]fault.Store{},
		Links: map[string]*redistest.Proxy{}, Empty: map[string]func() error{}, Copies: map[string]fault.Copier{}, Pools: map[string]fault.Pools{},
		Failovers: map[string]func() error{},
	}}
	r.ops = newOperator(r)
	r.live.Operator = r.ops.breakFirst
	var err error
	if r.faults, err = p.schedule(); err != nil {
		return r, err
	}
	r.inj = fault.NewInjector(r.live, r.faults...)
	if r.start, err = sharedClock(); err != nil {
		return r, err
	}
	if r.epoch, err = here(r.start); err != nil {
		return r, err
	}
	r.rec = history.NewRecorderAt(r.epoch)
	r.vault = workload.NewVault(r.rec, map[string]int64{check.Stock: pieces})
	if r.stores, err = l.stores(ctx, p); err != nil {
		return r, err
	}
	for i, s := range r.stores {
		name := fmt.Sprintf("node%d", i+1)
		r.live.Stores[name], r.live.Empty[name] = s, func() error { return s.empty(r.rec.Now) }
		if s.replicated() != nil {
			r.live.Failovers[name] = s.failOver
		}
		r.live.Copies[name] = copier{store: s, now: r.rec.Now, loses: p.Wrong == LosesAll}
	}
	return r, r.gather(ctx)
}

// gather starts the workers.
func (r *run) gather(ctx context.Context) error {
	points, steps, stops := map[string][]string{}, map[string]Steps{}, map[string]map[string][]int{}
	for _, f := range r.faults {
		if f.Kind == fault.StepClock {
			steps[f.Target] = ClockSteps
		}
		if atPoint(f) {
			if stops[f.Target] == nil {
				stops[f.Target] = map[string][]int{}
			}
			stops[f.Target][f.At.Point] = append(stops[f.Target][f.At.Point], f.At.Nth)
		} else if f.At.Who != "" {
			points[f.At.Who] = append(points[f.At.Who], f.At.Point)
		}
	}
	for i := range r.p.Workers {
		name := fmt.Sprintf("w%d", i+1)
		nodes, err := r.ways(name)
		if err != nil {
			return err
		}
		c, err := r.startWorker(name)
		if err != nil {
			return err
		}
		r.workers = append(r.workers, c)
		r.live.Processes[name], r.live.Clocks[name], r.live.Pools[name] = c, c.Step, c
		o := opening{Name: name, Place: uint64(i), Program: r.p, Nodes: nodes, Prefix: r.prefix, Start: r.start, Points: points[name], Steps: steps[name], Stops: stops[name]}
		if err := c.order(ctx, order{Do: orderOpen, Open: &o}); err != nil {
			return err
		}
	}
	return nil
}

// urls are the URLs of the stores.
func (r *run) urls() (all []string) {
	for _, s := range r.stores {
		all = append(all, s.url)
	}
	return all
}

// ways are the URLs of the stores as a worker sees them: by a proxy where a fault
// will be on the way.
func (r *run) ways(who string) ([]string, error) {
	var out []string
	for i, s := range r.stores {
		name := fmt.Sprintf("%s-node%d", who, i+1)
		if !slices.ContainsFunc(r.faults, func(f fault.Fault) bool { return f.Target == name }) {
			out = append(out, s.url)
			continue
		}
		addr, err := s.address()
		if err != nil {
			return nil, err
		}
		proxy, err := redistest.LaunchProxy(addr)
		if err != nil {
			return nil, err
		}
		r.live.Links[name] = proxy
		way, err := s.through(proxy.Addr())
		if err != nil {
			return nil, err
		}
		out = append(out, way)
	}
	return out, nil
}

// play runs the workers under the faults, and then checks that all is well.
func (r *run) play(ctx context.Context) error {
	unwatch, err := r.watchStores()
	if err != nil {
		return err
	}
	defer unwatch()
	if err := r.openLedgers(ctx); err != nil {
		return err
	}
	if err := r.watchRoles(ctx); err != nil {
		return err
	}
	defer r.roles.stop()
	if err := r.all(ctx, orderWork); err != nil {
		return err
	}
	r.began = r.rec.Now()
	r.inj.Start()
	select {
	case <-time.After(r.p.Length):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := r.inj.Stop(); err != nil {
		return err
	}
	r.ops.stop()
	for _, s := range r.stores {
		s.revive() // on a slow machine its start may have come before its end
		if err := s.settle(); err != nil {
			return err
		}
		if err := r.awaitLeader(ctx, s); err != nil {
			return err
		}
	}
	for _, do := range []string{orderRest, orderCalm, orderClose} {
		if err := r.all(ctx, do); err != nil {
			return err
		}
	}
	r.ops.close()
	if err := errors.Join(r.closeLedgers(ctx), r.compareClocks(ctx)); err != nil {
		return err
	}
	if err := r.compareHistory(ctx); err != nil {
		return err
	}
	return r.leftovers(ctx)
}

// all gives an order to all workers that live, and waits.
func (r *run) all(ctx context.Context, do string) error {
	errs := make([]error, len(r.workers))
	var wg sync.WaitGroup
	for i, c := range r.workers {
		if c.deadSince() == 0 {
			wg.Go(func() { errs[i] = c.order(ctx, order{Do: do}) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil || ctx.Err() != nil {
			continue
		}
		if do == orderClose {
			r.violated("errors", "", "Close of %s: %v", r.workers[i].name, err)
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// tidy is how long what closed clients left may still be there, and what clearing
// up may take.
const tidy = 2 * time.Second

// leftovers looks for what the workers that lived have left in the stores.
func (r *run) leftovers(ctx context.Context) error {
	if !r.p.holdfast() {
		return nil // to leave something is one of the holes of the others
	}
	alive := map[string]bool{}
	for _, c := range r.workers {
		alive[c.name] = c.deadSince() == 0
	}
	for i, s := range r.stores {
		names, err := s.eternal(ctx, r.prefix)
		if err != nil {
			return err
		}
		for _, name := range names {
			r.violated("leftovers", name, "node%d has the key for ever", i+1)
		}
		if err := r.remains(ctx, i, s.url, alive); err != nil {
			return err
		}
	}
	return nil
}

// remains looks for leases and waiters, until there are none or they have stayed too long.
func (r *run) remains(ctx context.Context, node int, url string, alive map[string]bool) error {
	c, end, err := openObserver([]string{url}, r.prefix)
	if err != nil {
		return err
	}
	defer end()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for start := time.Now(); ; <-look.C {
		found, err := r.remnants(ctx, c, node, alive)
		found = slices.DeleteFunc(found, r.stores[node].restored)
		if err != nil || len(found) == 0 {
			return err
		}
		since, late := time.Since(start), false
		for _, x := range found {
			if since > r.mayStay(x) {
				r.violated("leftovers", "", "%s; measured silence of the node at Close: %v", x.text, r.silence(x).Round(time.Millisecond))
				late = true
			}
		}
		if late {
			return nil
		}
	}
}

// remnants lists the leases and waiters of clients that have closed.
func (r *run) remnants(ctx context.Context, c *holdfast.Client, node int, alive map[string]bool) (found []leftBehind, err error) {
	for s, err := range c.List(ctx, "*") {
		if err != nil {
			return nil, err
		}
		latch := slices.ContainsFunc(r.p.Resources, func(x Resource) bool { return x.Kind == Latch && strings.HasPrefix(s.Resource, x.Name+"/") })
		for _, h := range s.Holders {
			if latch {
				break // a latch outlives who has set it and who has counted
			}
			if alive[h.Name] {
				found = append(found, leftBehind{node, h.Name, false, strings.Contains(s.Resource, conditions), h.Token, fmt.Sprintf("node%d has a lease of %s on %s, token %d", node+1, h.Name, s.Resource, h.Token)})
			}
		}
		for _, h := range s.Waiters {
			if alive[h.Name] {
				found = append(found, leftBehind{node, h.Name, true, false, 0, fmt.Sprintf("node%d has %s waiting for %s", node+1, h.Name, s.Resource)})
			}
		}
	}
	return found, nil
}

// saw notes a violation that the history does not show.
func (r *run) violated(by, resource, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations = append(r.violations, check.Violation{Check: by, Resource: resource, Text: fmt.Sprintf(format, args...), At: r.rec.Now()})
}

// end stops faults, workers and proxies, and clears up.
func (r *run) end(ctx context.Context) error {
	if r.inj == nil {
		return nil
	}
	err := errors.Join(r.inj.Stop(), r.closeLedgers(ctx))
	r.ops.stop() // the faults give it its orders
	r.ops.close()
	for _, c := range r.workers {
		c.stop()
	}
	for _, p := range r.live.Links {
		p.Stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidy) // also if the run was cut short
	defer cancel()
	for _, s := range r.stores {
		s.revive() // if the run was cut short
		err = errors.Join(err, s.clear(ctx, r.prefix))
		if s.once {
			s.server.Stop()
		}
	}
	return err
}
