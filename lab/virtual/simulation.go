package virtual

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// tokensBehind is how long a store without its data is away at least: its clock
// must be ahead of every token that it gave, and grants cost no time here.
const tokensBehind = 100 * time.Millisecond

// simulation is one run of a program, inside a bubble.
type simulation struct {
	p     Program
	rec   *history.Recorder
	vault *workload.Memory
	nodes []*node
	names []string // of the resources, in the order of first use

	rounds        sync.WaitGroup // work
	faults        sync.WaitGroup // that have not ended
	changes       sync.Mutex
	procs         []*process // by place; a dead one's place is taken by another
	all           []*process
	forced        map[string]breakRecord   // holder IDs that an operator ended by force, or a wipe
	breakRequests map[string]breakRecord   // holder IDs that an operator broke: they keep others out until they are released
	stays         map[string][]history.Op  // by holder ID
	ttls          map[string]time.Duration // by stay
	wiped         bool
	violations    []check.Violation // what was seen during the run
}

func newSimulation(p Program) (*simulation, error) {
	rec := history.NewRecorder()
	w := &simulation{p: p, rec: rec, forced: map[string]breakRecord{}, breakRequests: map[string]breakRecord{}, stays: map[string][]history.Op{}, ttls: map[string]time.Duration{},
		vault: workload.NewVault(rec, map[string]int64{check.Stock: 5})}
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
		if len(p.Ahead) > 0 {
			n.skew = p.Ahead[i]
		}
		w.nodes = append(w.nodes, n)
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

// linked makes a process with links to all stores, and no client yet. Its number
// decides how long its messages are under way.
func (w *simulation) linked(name string, number int) *process {
	p := &process{w: w, name: name}
	for i, node := range w.nodes {
		p.links = append(p.links, &link{p: p, n: node, faults: map[Action]int{},
			rng: rand.New(rand.NewPCG(w.p.Seed, uint64(number*len(w.nodes)+i)))})
	}
	return p
}

// start makes a process for a place. The mutex is held, once others run.
func (w *simulation) start(place int) (*process, error) {
	p := w.linked(fmt.Sprintf("p%d.%d", place, len(w.all)), len(w.all))
	e, shut := w.engine(p)
	c, err := holdfast.New(e, holdfast.WithName(p.name), holdfast.WithMeta(holdfast.Meta{Host: "lab", PID: 1}))
	if err != nil {
		return nil, err
	}
	p.client, p.shut = c, shut
	p.worker = &workload.Worker{Name: p.name, Rec: w.rec, Vault: w.vault, Step: p.step, Took: w.took}
	w.all = append(w.all, p)
	return p, nil
}

// engine returns the engine of a process's client, and what ends it.
func (w *simulation) engine(p *process) (engine.Engine, func()) {
	if w.p.World == Quorum {
		nodes := make([]engine.Engine, len(p.links))
		for i, l := range p.links {
			nodes[i] = l
		}
		return quorum.New(nodes...), func() {}
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

// took notes the holder ID of a stay in the store.
func (w *simulation) took(op history.Op, h workload.Hold) {
	w.changes.Lock()
	defer w.changes.Unlock()
	id := h.(lease).HolderID()
	w.ttls[op.Holder] = h.(lease).ttl
	w.stays[id] = append(w.stays[id], op)
}

// breakRecord is what an operator, or a wipe, did to a lease.
type breakRecord struct {
	at    time.Duration
	token uint64 // of the lease; 0: it was a wait
}

// breakOps returns what an operator, or a wipe, did to stays, for the history. A lease
// may be handed off in its process for a while after that, with the
// tokens that were reserved; and an ID that a wipe has ended may be granted anew by
// a store that does not know it.
func (w *simulation) breakOps(of map[string]breakRecord) (ops []history.Op) {
	for id, o := range of {
		for _, op := range w.stays[id] {
			if op.Token > o.token+mostReserved {
				continue
			}
			op.Client, op.Kind, op.Call, op.Return, op.Until = "operator", history.Release, o.at, o.at, 0
			ops = append(ops, op)
		}
	}
	return ops
}

// mostReserved is how many tokens are set aside with a grant, at most.
const mostReserved = 64

// brokenByForce notes that an operator, or a wipe, ends the leases of holders.
func (w *simulation) brokenByForce(holders ...engine.Holder) {
	w.changes.Lock()
	defer w.changes.Unlock()
	for _, h := range holders {
		if _, before := w.forced[h.ID]; !before {
			w.forced[h.ID] = breakRecord{w.rec.Now(), h.Token}
		}
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

// Times of the end of a run.
const (
	// settleTime is after how long all traces of faults in a store have expired: leases,
	// claim windows and waits of dead processes.
	settleTime = 25*time.Second + longestJump
	// cleanupTime is how long a client may take to clean up after its calls, once its
	// links work again. On a server tries are a second apart by then, and over pipes, which
	// go-redis does not look at before it uses them, each dead connection in its
	// pool costs one: three did in seed 601570 on that engine.
	cleanupTime, serverCleanupTime = 3 * time.Second, 6 * time.Second
	// observedTime is how long a dead waiter is taken for alive by a process that sees it for the
	// first time, on a store without a clock, and then holds a lease that it never claims.
	observedTime = engine.WaiterLife + engine.ClaimWindow
	// recheckTimeout bounds the waits right after the faults.
	recheckTimeout = 40 * time.Second
)

// run does all steps and waits for the end of the faults. Then everything that was used
// is acquired again: at once, when dead processes may block it for as long as promised,
// and once more when no fault may have any effect.
func (w *simulation) run() (end runEnd) {
	for _, s := range w.p.Steps {
		w.do(s)
		<-time.After(s.Sleep)
	}
	w.faults.Wait()
	end.healed = w.rec.Now()
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

// cleanupTime is the time that a world needs.
func (w World) cleanupTime() time.Duration {
	switch w {
	case Redis:
		return serverCleanupTime
	case Documents:
		return cleanupTime + observedTime
	}
	return cleanupTime
}

// runEnd is when the faults of a run were over, and when their traces were.
type runEnd struct{ healed, settled time.Duration }

// do starts a step.
func (w *simulation) do(s Step) {
	p := w.at(s.Process)
	if s.Do == Round {
		if !slices.Contains(w.names, s.Name) {
			w.names = append(w.names, s.Name)
		}
		w.rounds.Go(func() {
			if err := w.round(p, s); err != nil && !passing(err) {
				w.violated("errors", s.Name, "%s got: %v", p.name, err)
			}
		})
		return
	}
	// All processes block first, so that a program means the same each time.
	synctest.Wait()
	w.faults.Go(func() { w.fault(p, s) })
}

// passing reports whether an error is one that faults may cause.
func passing(err error) bool {
	for _, ok := range []error{holdfast.ErrNotAcquired, holdfast.ErrUnavailable, holdfast.ErrLost} {
		if errors.Is(err, ok) {
			return true
		}
	}
	return false
}

// fault does one, and returns when it has ended.
func (w *simulation) fault(p *process, s Step) {
	switch s.Do {
	case Pause:
		p.pause(s.For)
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
		w.takeDown(w.nodes[s.Node], s.For)
	case Wipe:
		w.wipe(w.nodes[s.Node], s.For)
	case Break:
		w.operator(s)
	case Jump:
		// Leases end by the store's clock: exclusion is not promised to the present
		// holders.
		<-time.After(operatorDelay)
		w.brokenByForce(w.nodes[s.Node].holders()...)
		w.nodes[s.Node].jump(s.Delay)
	}
}

// crash kills a process; another takes its place later.
func (w *simulation) crash(p *process, s Step) {
	if !p.alive() {
		return
	}
	p.kill()
	<-time.After(s.For)
	w.changes.Lock()
	defer w.changes.Unlock()
	fresh, err := w.start(s.Process)
	if err == nil {
		w.procs[s.Process] = fresh
	}
}

// wipe takes a store's data. Of a quorum, what one store had is not lost if it stays
// away until every lease has ended of which it may have been the one that counted.
func (w *simulation) wipe(n *node, away time.Duration) {
	w.changes.Lock()
	w.wiped = true
	w.changes.Unlock()
	gone := n.wipe()
	if w.p.World == Quorum {
		w.takeDown(n, max(away, longestTTL*11/10))
		return
	}
	w.brokenByForce(gone...)
	w.takeDown(n, max(away, tokensBehind))
}

// operatorDelay is how long an operator takes: not a multiple of what programs are
// made of, so that no lease is granted in the very instant of the break, before its
// client can receive anything.
const operatorDelay = 1500*time.Microsecond + 1

// breakRequested notes that a lease was broken, which does not end it: no other caller
// may be granted before it is released.
func (w *simulation) breakRequested(h engine.Holder) {
	w.changes.Lock()
	defer w.changes.Unlock()
	if _, before := w.breakRequests[h.ID]; !before {
		w.breakRequests[h.ID] = breakRecord{w.rec.Now(), h.Token}
	}
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
		_ = e.Break(ctx, res, engine.Break{ID: snap.Waiters[len(snap.Waiters)/2].ID}) // it may have ended meanwhile
	case len(snap.Holders) > 0:
		h := snap.Holders[0]
		if s.Force {
			w.brokenByForce(h)
		} else {
			w.breakRequested(h)
		}
		_ = e.Break(ctx, res, engine.Break{ID: h.ID, Force: s.Force})
	}
}

// recheck acquires the whole of everything that was ever used, in every process.
func (w *simulation) recheck(way Way) {
	var again sync.WaitGroup
	for _, s := range w.lastRounds() {
		s.Way, s.Wait, s.Hold, s.TTL = way, recheckTimeout, 20*time.Millisecond, time.Second
		s.Weight = 2
		if s.Lock == Semaphore {
			s.Weight = semaphoreCapacity
		}
		for place := range w.p.Processes {
			again.Go(func() {
				p := w.at(place)
				if err := w.round(p, s); err != nil {
					w.violated("errors", s.Name, "when all was well again %s got: %v", p.name, err)
				}
			})
		}
	}
	again.Wait()
}

// lastRounds is one round for each resource.
func (w *simulation) lastRounds() []Step {
	var out []Step
	for _, name := range w.names {
		i := slices.IndexFunc(w.p.Steps, func(s Step) bool { return s.Do == Round && s.Name == name })
		out = append(out, w.p.Steps[i])
	}
	return out
}

// close ends the clients and looks at what is left.
func (w *simulation) close() {
	for _, p := range w.all {
		if !p.alive() {
			continue
		}
		if err := p.client.Close(); err != nil {
			w.violated("errors", "", "Close of %s: %v", p.name, err)
		}
		p.shut()
	}
	<-time.After(time.Second) // what is still under way arrives
	synctest.Wait()
	everybody := map[string]bool{}
	for _, p := range w.all {
		everybody[p.name] = true
	}
	w.leftovers(everybody)
	w.eternal()
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

// brokenElsewhere reports whether an operator broke the lease on a majority of the
// stores while this one was away: here it ends by its TTL.
func (w *simulation) brokenElsewhere(h engine.Holder) bool {
	w.changes.Lock()
	defer w.changes.Unlock()
	for _, all := range []map[string]breakRecord{w.forced, w.breakRequests} {
		for _, o := range all {
			if w.p.World == Quorum && o.token == h.Token {
				return true
			}
		}
	}
	return false
}

// leftovers looks for what processes have left in the stores, at a moment when
// they hold and want nothing.
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
