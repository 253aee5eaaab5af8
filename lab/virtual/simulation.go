package virtual

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// wipeTime is the shortest time for which a store is unreachable after the loss of its
// data. Its clock must be ahead of every token that it gave, which bursts of grants, without
// any cost in virtual time, may have raised above the clock.
const wipeTime = 100 * time.Millisecond

// simulation is one run of a program, inside a bubble.
type simulation struct {
	p     Program
	rec   *history.Recorder
	vault *workload.Memory
	nodes []*node
	names []string // of the resources, in the order of first use

	rounds        sync.WaitGroup // running rounds
	faults        sync.WaitGroup // running faults
	changes       sync.Mutex     // guards the fields below
	procs         []*process     // by number in the program; another process replaces one that died
	all           []*process
	forced        map[string][]breakRecord // by holder ID: leases ended by a forced break, a wipe or a jump
	breakRequests map[string][]breakRecord // by holder ID: leases broken without force, which exclude others until they are released
	leases        map[string][]history.Op  // acquires, by holder ID
	steps         map[string]Step          // of acquired leases, by Holder of the history
	wiped         bool
	violations    []check.Violation // those that the history does not show
	lingers       lingerLog
	turns         turnLog
	stopped       stopLog
	incidents     incidentLog

	unreleased atomic.Bool // Close of a process has reported a lease that was not released
}

func newSimulation(p Program, observe Observer) (*simulation, error) {
	rec := history.NewRecorder()
	w := &simulation{p: p, rec: rec, forced: map[string][]breakRecord{}, breakRequests: map[string][]breakRecord{}, leases: map[string][]history.Op{}, steps: map[string]Step{},
		lingers: lingerLog{kept: map[localTurn]bool{}},
		vault:   workload.NewVault(rec, map[string]int64{check.Stock: 5})}
	for i, rate := range p.Rates {
		if p.World == Redis {
			w.nodes = append(w.nodes, newServer(rate))
			continue
		}
		if p.World.ofDocuments() {
			w.nodes = append(w.nodes, newDocuments(rate, p.World == TimedDocuments))
			continue
		}
		n := newNode(rate)
		n.observe = observe
		n.e = n.fresh()
		if len(p.Ahead) > 0 {
			n.skew = p.Ahead[i]
		}
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		n.hit = w.hit
	}
	for i := range p.Processes {
		proc, err := w.start(i)
		if err != nil {
			return nil, err
		}
		w.procs = append(w.procs, proc)
	}
	return w, nil
}

// linked returns a process with links to all stores and without a client. The number seeds
// the delays of its messages.
func (w *simulation) linked(name string, number int) *process {
	p := &process{w: w, name: name}
	for i, node := range w.nodes {
		p.links = append(p.links, &link{p: p, n: node, faults: map[Action]int{},
			rng: rand.New(rand.NewPCG(w.p.Seed, uint64(number*len(w.nodes)+i)))})
	}
	return p
}

// start starts the process with a number in the program. Once others run, the mutex is held.
func (w *simulation) start(place int) (*process, error) {
	p := w.linked(fmt.Sprintf("p%d.%d", place, len(w.all)), len(w.all))
	e, shut := w.engine(p)
	p.watch(e)
	c, err := holdfast.New(e, holdfast.WithName(p.name), holdfast.WithMeta(holdfast.Meta{Host: "lab", PID: 1}),
		holdfast.WithHooks(lingerHook{w, p.name}))
	if err != nil {
		return nil, err
	}
	p.client, p.shut = c, shut
	p.worker = &workload.Worker{Name: p.name, Rec: w.rec, Vault: w.vault, Step: p.step, Took: w.took}
	w.all = append(w.all, p)
	return p, nil
}

// engine returns the engine of a process's client, and a function that closes its connections.
func (w *simulation) engine(p *process) (engine.Engine, func()) {
	if w.p.World == Quorum {
		nodes := make([]engine.Engine, len(p.links))
		for i, l := range p.links {
			nodes[i] = l
		}
		return &promptQuorum{Engine: quorum.New(nodes...), p: p}, func() {}
	}
	if w.p.World == Redis {
		return p.links[0], p.links[0].connect()
	}
	if w.p.World.ofDocuments() {
		return p.links[0].overDocuments(), func() {}
	}
	return p.links[0], func() {}
}

// everyProcess lists all processes so far.
func (w *simulation) everyProcess() []*process {
	w.changes.Lock()
	defer w.changes.Unlock()
	return slices.Clone(w.all)
}

// took notes the holder ID of an acquired lease.
func (w *simulation) took(op history.Op, h workload.Hold) {
	w.changes.Lock()
	defer w.changes.Unlock()
	l, ok := h.(lease)
	if !ok {
		l = h.(reader).lease
	}
	id := l.HolderID()
	w.steps[op.Holder] = l.step
	w.leases[id] = append(w.leases[id], op)
}

// breakRecord is the end of a lease by an operator, a wipe or a jump of the store's clock.
type breakRecord struct {
	at    time.Duration
	token uint64
}

// breakOps returns the recorded ends as releases by an operator, for the history. They are of
// the lease with the recorded token and of its hand-offs, which have the tokens reserved with
// it. A later lease with the same holder ID, granted by a store that has lost its data, has an
// end of its own, if any.
func (w *simulation) breakOps(of map[string][]breakRecord) (ops []history.Op) {
	for id, ends := range of {
		for _, op := range w.leases[id] {
			i := slices.IndexFunc(ends, func(o breakRecord) bool { return op.Token <= o.token+mostReserved })
			if i < 0 {
				continue
			}
			op.Client, op.Kind, op.Call, op.Return, op.Until = "operator", history.Release, ends[i].at, ends[i].at, 0
			ops = append(ops, op)
		}
	}
	return ops
}

// record adds the end of a lease, in the order of tokens. A lease ends once.
func (w *simulation) record(of map[string][]breakRecord, h engine.Holder) {
	w.changes.Lock()
	defer w.changes.Unlock()
	if ends := of[h.ID]; len(ends) == 0 || ends[len(ends)-1].token < h.Token {
		of[h.ID] = append(ends, breakRecord{w.rec.Now(), h.Token})
	}
}

// mostReserved is the greatest number of tokens that a grant reserves for hand-offs.
const mostReserved = 64

// brokenByForce records that the leases of holders no longer exclude others.
func (w *simulation) brokenByForce(holders ...engine.Holder) {
	for _, h := range holders {
		w.record(w.forced, h)
	}
}

// violated notes a violation that the history does not show.
func (w *simulation) violated(by, resource, format string, args ...any) {
	w.changes.Lock()
	defer w.changes.Unlock()
	w.violations = append(w.violations, check.Violation{Check: by, Resource: resource, Text: fmt.Sprintf(format, args...), At: w.rec.Now()})
}

func (w *simulation) at(place int) *process {
	w.changes.Lock()
	defer w.changes.Unlock()
	return w.procs[place]
}

// Times at the end of a run.
const (
	// settleTime is the time after which everything that faults left in a store has expired:
	// leases, claim windows and waits of dead processes.
	settleTime = 25*time.Second + longestJump
	// cleanupTime is how long a client may take to clean up after its calls, once its
	// links work again. In the world Redis retries are a second apart by then, and each dead
	// connection in the pool costs one of them, because go-redis does not check a pipe before
	// it uses it: three in seed 601570.
	cleanupTime, serverCleanupTime = 3 * time.Second, 6 * time.Second
	// observedTime is how long a dead waiter may block a resource on a store without a clock:
	// a process that sees the waiter for the first time assumes that it is alive for its
	// whole life, and may grant to it.
	observedTime = engine.WaiterLife + engine.ClaimWindow
	// recheckTimeout is the Wait of the rounds after the faults.
	recheckTimeout = 40 * time.Second
)

// run starts all steps and waits for the end of the faults. Then every process acquires
// every resource that was used, twice: at once, when leases and waits of dead processes may
// still block it, and after settleTime, when no fault may have any effect.
func (w *simulation) run() (end runEnd) {
	for _, s := range w.p.Steps {
		w.do(s)
		<-time.After(s.Sleep)
	}
	w.faults.Wait()
	end.healed = w.rec.Now()
	if w.has(Visits) {
		w.rounds.Wait()
		w.recheckByVisits()
	}
	if w.p.Seed%2 == 0 && !w.has(Jump) { // a clock that is set back prolongs withdrawn requests
		w.rounds.Wait()
		<-time.After(w.p.World.cleanupTime())
		w.leftovers(w.alive())
	}
	w.recheck(Plain)
	w.rounds.Wait()
	<-time.After(settleTime)
	synctest.Wait()
	end.settled = w.rec.Now()
	w.recheck(NoTenure)
	w.close()
	return end
}

// cleanupTime returns how long a client may take to clean up in a world.
func (w World) cleanupTime() time.Duration {
	switch w {
	case Redis:
		return serverCleanupTime
	case Documents:
		return cleanupTime + observedTime
	case TimedDocuments:
		// A call whose request was lost, or its reply, is given up after that time, and those that
		// follow it wait.
		return cleanupTime + cas.DefaultTimeout
	}
	return cleanupTime
}

// runEnd has the instants at which the faults had ended, and at which all that they left
// had expired.
type runEnd struct{ healed, settled time.Duration }

// do starts the work or the fault of a step.
func (w *simulation) do(s Step) {
	p := w.at(s.Process)
	if s.Do == Restart {
		w.restart(p, s)
		return
	}
	if s.works() {
		if !slices.Contains(w.names, s.Name) {
			w.names = append(w.names, s.Name)
		}
		p.rounds.Add(1)
		w.rounds.Go(func() {
			defer p.rounds.Done()
			if s.Do == Visits {
				w.visits(s)
			} else {
				_ = w.round(p, s) // the error is judged later
			}
		})
		return
	}
	// A fault begins when all goroutines are blocked, so that it hits the same state in every run.
	synctest.Wait()
	switch s.Do {
	case Down, Wipe, Jump, Break:
		w.lingers.met(s.Do, w.everyProcess()...)
	default:
		w.lingers.met(s.Do, p)
	}
	began := w.rec.Now()
	w.faults.Go(func() {
		if w.fault(p, s) {
			w.happened(p, s, began)
		}
	})
	synctest.Wait() // it has begun before the next step: a wipe knows all leases that it ends
}

// passing reports whether an error is one that faults, or another caller, may cause.
func passing(err error) bool {
	for _, ok := range []error{holdfast.ErrNotAcquired, holdfast.ErrUnavailable, holdfast.ErrLost} {
		if errors.Is(err, ok) {
			return true
		}
	}
	return false
}

// fault injects the fault of a step and returns when it has ended. It reports whether there was one: a process may not come to
// the point at which it is to be stopped.
func (w *simulation) fault(p *process, s Step) bool {
	switch s.Do {
	case Pause:
		p.pause(s.For)
	case Stop:
		return p.stopAt(s)
	case Crash:
		w.crash(p, s)
	case Cut, Hang, Deaf, Mute, Slow, Twice:
		var links sync.WaitGroup
		for i, l := range p.links {
			if s.Node < 0 || s.Node == i {
				links.Go(func() { l.inject(s) })
			}
		}
		links.Wait()
	case Down:
		w.takeDown(w.nodes[s.Node], Down, s.For)
	case Wipe:
		w.wipe(w.nodes[s.Node], s.For)
	case Break:
		w.operator(s)
	case Jump:
		// Leases end by the store's clock, so exclusion is not promised for those that exist now.
		<-time.After(operatorDelay)
		ended := w.nodes[s.Node].holders()
		if len(ended) > 0 {
			w.hit(Jump)
		}
		w.brokenByForce(ended...)
		w.nodes[s.Node].jump(s.Delay)
	}
	return true
}

// crash kills a process; after a while another process replaces it.
func (w *simulation) crash(p *process, s Step) {
	if !p.alive() {
		return
	}
	w.hit(Crash)
	p.kill()
	<-time.After(s.For)
	w.changes.Lock()
	defer w.changes.Unlock()
	fresh, err := w.start(s.Process)
	if err == nil {
		w.procs[s.Process] = fresh
	}
}

// wipe deletes a store's data and makes the store unreachable. A store of a quorum stays
// unreachable until every lease that it granted has ended, as operators must ensure, so that
// it cannot vote twice; exclusion then holds.
func (w *simulation) wipe(n *node, away time.Duration) {
	w.changes.Lock()
	w.wiped = true
	w.changes.Unlock()
	gone := n.wipe()
	if len(gone) > 0 {
		w.hit(Wipe)
	}
	if w.p.World == Quorum {
		w.takeDown(n, Wipe, max(away, longestTTL*11/10))
		return
	}
	w.brokenByForce(gone...)
	w.takeDown(n, Wipe, max(away, wipeTime))
}

// operatorDelay is the time from the start of a step until its break. The times in programs
// are whole milliseconds, so no lease is granted at the instant of a break, before its client
// can receive the wake-up.
const operatorDelay = 1500*time.Microsecond + 1

// breakRequested records that a lease was broken without force. It has not ended: nothing
// else may be granted before it is released.
func (w *simulation) breakRequested(h engine.Holder) {
	w.record(w.breakRequests, h)
}

// operator breaks a holder, or a waiter, of a resource.
func (w *simulation) operator(s Step) {
	<-time.After(operatorDelay)
	e, shut := w.engine(w.linked("operator", -1))
	defer shut()
	defer e.Leave("operator")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	res := engine.Resource{Prefix: holdfast.DefaultPrefix, Name: s.Name}
	snap, err := e.Snapshot(ctx, res)
	if err != nil {
		return
	}
	switch {
	case len(snap.Waiters) > 0 && s.For%2 == 0:
		_ = e.Break(ctx, res, engine.Break{ID: snap.Waiters[len(snap.Waiters)/2].ID}) // the wait may have ended meanwhile
	case len(snap.Holders) > 0:
		h := snap.Holders[0]
		if s.Force {
			w.brokenByForce(h)
		} else {
			w.breakRequested(h)
		}
		if e.Break(ctx, res, engine.Break{ID: h.ID, Force: s.Force}) == nil {
			w.hit(Break)
		}
	}
}

// recheck acquires every resource that was used, with its whole capacity where that is
// possible, in every process.
func (w *simulation) recheck(way Way) {
	var again sync.WaitGroup
	for _, s := range w.lastRounds() {
		s.Way, s.Wait, s.Hold, s.TTL = way, recheckTimeout, 20*time.Millisecond, time.Second
		s.Linger = min(s.Linger, s.TTL/3)
		s.Weight = 2
		if s.Lock == Semaphore {
			s.Weight = semaphoreCapacity
		}
		for place := range w.p.Processes {
			again.Go(func() {
				p := w.at(place)
				if err := w.round(p, s); err != nil && !errors.Is(err, errSlotOver) {
					w.violated("errors", s.Name, "after the faults %s got: %v", p.name, err)
				}
			})
		}
	}
	again.Wait()
}

// lastRounds returns the first round of each resource.
func (w *simulation) lastRounds() []Step {
	var out []Step
	for _, name := range w.names {
		i := slices.IndexFunc(w.p.Steps, func(s Step) bool { return s.works() && s.Name == name })
		out = append(out, w.p.Steps[i])
	}
	return out
}

// close closes the clients and checks that nothing is left in the stores.
func (w *simulation) close() {
	for _, p := range w.all {
		if !p.alive() {
			continue
		}
		if err := p.client.Close(); err != nil {
			w.violated("errors", "", "Close of %s: %v", p.name, err)
		}
		p.shut()
		p.forget()
	}
	<-time.After(time.Second) // until all delayed messages have arrived
	synctest.Wait()
	everybody := map[string]bool{}
	for _, p := range w.all {
		everybody[p.name] = true
	}
	w.leftovers(everybody)
	w.requireTTLs()
	for _, n := range w.nodes {
		n.stop()
	}
}

func (w *simulation) alive() map[string]bool {
	names := map[string]bool{}
	for place := range w.p.Processes {
		names[w.at(place).name] = true
	}
	return names
}

// brokenElsewhere reports whether an operator broke this lease of a quorum. A store that
// was unreachable meanwhile keeps it until its TTL.
func (w *simulation) brokenElsewhere(h engine.Holder) bool {
	w.changes.Lock()
	defer w.changes.Unlock()
	for _, all := range []map[string][]breakRecord{w.forced, w.breakRequests} {
		for _, ends := range all {
			if w.p.World == Quorum && slices.ContainsFunc(ends, func(o breakRecord) bool { return o.token == h.Token }) {
				return true
			}
		}
	}
	return false
}

// leftovers reports a violation for each lease and wait of processes in the stores. It is
// called when these processes hold nothing and wait for nothing.
func (w *simulation) leftovers(of map[string]bool) {
	for i, n := range w.nodes {
		for s, err := range n.e.List(context.Background(), holdfast.DefaultPrefix, "*") {
			if err != nil {
				w.violated("leftovers", "", "List: %v", err)
				continue
			}
			for _, h := range s.Holders {
				h.Token = n.outside(h.Token)
				if of[h.Client.Name] && !w.brokenElsewhere(h) {
					w.violated("leftovers", s.Resource.Name, "store %d still has a lease of %s, token %d, %v left", i, h.Client.Name, h.Token, h.TTL)
				}
			}
			for _, h := range s.Waiters {
				if of[h.Client.Name] {
					w.violated("leftovers", s.Resource.Name, "store %d still has %s waiting", i, h.Client.Name)
				}
			}
		}
	}
}
