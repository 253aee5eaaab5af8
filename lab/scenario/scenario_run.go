package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// resource is the name that is locked in every run. Each run has empty servers.
const resource = "stock"

// scenarioRun is one run.
type scenarioRun struct {
	env    *Env
	sub    subject.Subject
	trial  Trial
	rec    *history.Recorder
	inj    *fault.Injector
	live   *fault.Live
	faults fault.Schedule
	onStep func(who, step string) // called for each step of a client, unless it is nil
	nodes  []*redistest.Server
	route  *route         // to the only node, if it can fail over
	memory *memory.Engine // for subjects that need no server
	vault  *vault
	left   []check.Finding

	started        atomic.Bool // before that, points are ignored
	ignoresContext bool
	conns          []*redis.Client
	ownProcess     map[string]bool // clients with a process of their own
	steps          map[string]bool // clients whose clock is stepped; they are in ownProcess too
	watchers       sync.WaitGroup
	done           chan struct{}

	clients map[string]subject.Client

	mu     sync.Mutex
	leases []*lease
}

// newScenarioRun starts servers, proxies and clients, and then the faults.
func newScenarioRun(ctx context.Context, env *Env, sub subject.Subject, s Scenario, c Trial, faults fault.Schedule) (*scenarioRun, error) {
	st := &scenarioRun{env: env, sub: sub, trial: c, faults: faults, ignoresContext: s.ignoresContext, rec: history.NewRecorder(), memory: memory.New(),
		ownProcess: map[string]bool{}, steps: map[string]bool{}, clients: map[string]subject.Client{}, done: make(chan struct{}),
		live: &fault.Live{Processes: map[string]fault.Process{}, Clocks: map[string]func(time.Duration) error{}, Stores: map[string]fault.Store{},
			Links: map[string]*redistest.Proxy{}, Failovers: map[string]func() error{}}}
	st.inj = fault.NewInjector(st.live, faults...)
	if err := st.set(ctx, s, faults); err != nil {
		return nil, errors.Join(err, st.end())
	}
	st.started.Store(true)
	st.inj.Start()
	return st, nil
}

// set starts the servers, proxies and clients of the run.
func (st *scenarioRun) set(ctx context.Context, s Scenario, faults fault.Schedule) error {
	var err error
	if st.nodes, err = st.env.nodes(ctx, st.sub.Nodes); err != nil {
		return err
	}
	data, err := st.env.protected(ctx)
	if err != nil {
		return err
	}
	st.vault = newVault(st.connect(subject.Connect(data.Addr())), st.sub.Traits.Fence)
	for i, n := range st.nodes {
		st.live.Stores[fmt.Sprintf("node%d", i+1)] = n
	}
	for _, f := range faults {
		if err := st.prepare(ctx, f); err != nil {
			return err
		}
	}
	for _, who := range s.clients {
		if err := st.open(ctx, who); err != nil {
			return fmt.Errorf("open client %s: %w", who, err)
		}
		if s.warm {
			if err := st.warm(ctx, who); err != nil {
				return fmt.Errorf("warm up %s: %w", who, err)
			}
		}
	}
	return nil
}

// prepare starts the proxy or replica that a fault needs, or notes that its client needs
// a process of its own.
func (st *scenarioRun) prepare(ctx context.Context, f fault.Fault) error {
	client, node, link := strings.Cut(f.Target, "-")
	_, store := st.live.Stores[f.Target]
	switch {
	case f.Kind == fault.Failover:
		return st.prepareFailover(ctx)
	case link && f.Kind != fault.Kill && st.live.Links[f.Target] == nil:
		s, ok := st.live.Stores[node].(*redistest.Server)
		if !ok {
			return fmt.Errorf("%v: no server %q for %s", f, node, client)
		}
		proxy, err := redistest.LaunchProxy(s.Addr())
		if err != nil {
			return err
		}
		st.live.Links[f.Target] = proxy
	case f.Kind == fault.StepClock && process.CanStep():
		st.ownProcess[f.Target], st.steps[f.Target] = true, true
	case !store && (f.Kind == fault.Kill || f.Kind == fault.Pause):
		st.ownProcess[f.Target] = true
	}
	return nil
}

// connect returns a go-redis client that is closed at the end of the run.
func (st *scenarioRun) connect(o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.conns = append(st.conns, c)
	return c
}

// addresses returns the addresses at which a client dials the nodes: proxies where it has them.
func (st *scenarioRun) addresses(who string) []string {
	var out []string
	for i, n := range st.nodes {
		addr := n.Addr()
		if proxy := st.live.Links[fmt.Sprintf("%s-node%d", who, i+1)]; proxy != nil {
			addr = proxy.Addr()
		}
		out = append(out, addr)
	}
	return out
}

// open makes a client, in a process of its own if a fault needs that.
func (st *scenarioRun) open(ctx context.Context, who string) error {
	open := st.openInProcess
	if st.ownProcess[who] {
		open = st.openProcess
	}
	c, err := open(ctx, who)
	if err == nil {
		st.clients[who] = c
	}
	return err
}

// ttl returns the TTL of the trial for clients whose leases are to expire, and a long one
// for the others, so that they do not expire on a slow machine.
func (st *scenarioRun) ttl(who string) time.Duration {
	if who == "a" || who == "z" {
		return st.trial.TTL
	}
	return long
}

func (st *scenarioRun) openInProcess(_ context.Context, who string) (subject.Client, error) {
	clock := &subject.Clock{}
	st.live.Clocks[who] = func(d time.Duration) error {
		clock.Step(d)
		return nil
	}
	s := subject.Setup{Client: who, TTL: st.ttl(who), Clock: clock, Point: st.point(who), Renewed: st.renewed(who)}
	if st.sub.Nodes == 0 {
		s.Engine = st.memory
	}
	for _, addr := range st.addresses(who) {
		o := subject.Connect(addr)
		if st.ignoresContext {
			o.ContextTimeoutEnabled, o.ReadTimeout = false, unfreedFor+300*time.Millisecond
		}
		if st.route != nil {
			o.Dialer = st.route.dial
		}
		s.Nodes = append(s.Nodes, st.connect(o))
	}
	return st.sub.Open(s)
}

func (st *scenarioRun) openProcess(ctx context.Context, who string) (subject.Client, error) {
	p, err := st.env.client(who)
	if err != nil {
		return nil, err
	}
	st.live.Processes[who] = recordedProcess{p, func() { st.recordDeath(who) }}
	st.live.Clocks[who] = p.Step
	spec := process.Spec{Subject: st.sub.ID, Client: who, Nodes: st.addresses(who), TTL: st.ttl(who), Steps: st.steps[who]}
	return p.Open(ctx, spec, st.point(who), st.renewed(who))
}

// recordedProcess is a process that calls died when it was killed.
type recordedProcess struct {
	*process.Process
	died func()
}

// Kill kills the process and records its death.
func (v recordedProcess) Kill() error {
	err := v.Process.Kill()
	v.died()
	return err
}

// recordDeath records the end of the leases of a dead client.
func (st *scenarioRun) recordDeath(who string) {
	for _, y := range st.leasesOf(who) {
		y.record(history.Op{Kind: history.Leave, Outcome: history.OK, Note: "dead"})
	}
}

func (st *scenarioRun) leasesOf(who string) []*lease {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(st.leases), func(y *lease) bool { return y.who != who })
}

// point returns the function that a client calls at each of its steps.
func (st *scenarioRun) point(who string) subject.Point {
	return func(ctx context.Context, step string) error {
		if !st.started.Load() {
			return nil
		}
		if st.onStep != nil {
			st.onStep(who, step)
		}
		err := st.inj.Point(ctx, who, step)
		if errors.Is(err, fault.ErrKilled) {
			return errors.Join(subject.ErrDead, err)
		}
		return err
	}
}

// renewed returns the function that records the renewals of a client's background work.
func (st *scenarioRun) renewed(who string) func(subject.Renewal) {
	return func(r subject.Renewal) {
		if r.Resource != resource {
			return
		}
		for _, y := range st.leasesOf(who) {
			if y.hold.Token() == r.Token {
				y.record(history.Op{Kind: history.Renew, Outcome: history.OK, Until: st.since(r.Until)})
			}
		}
	}
}

// since converts an instant to the time of the history; the zero time becomes 0.
func (st *scenarioRun) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return st.rec.Now() + time.Until(t)
}

// end stops faults, clients and connections.
func (st *scenarioRun) end() error {
	err := st.inj.Stop()
	close(st.done)
	for _, c := range st.clients {
		_ = c.Close() // the client or its server may be dead
	}
	st.watchers.Wait()
	for _, c := range st.conns {
		_ = c.Close() // nothing is under way
	}
	for _, p := range st.live.Links {
		p.Stop()
	}
	return err
}

// concurrently runs functions at the same time and joins their errors.
func concurrently(parts ...func() error) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { errs[i] = part() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// await returns when a client has reached a point for the first time.
func (st *scenarioRun) await(ctx context.Context, who, point string) error {
	return st.inj.Await(ctx, fault.At(who, point))
}

// within calls do with a ctx that ends after d.
func within(ctx context.Context, d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return do(ctx)
}

// awaitOr waits for a point, but not for longer than d.
func (st *scenarioRun) awaitOr(ctx context.Context, who, point string, d time.Duration) error {
	brief, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if err := st.await(brief, who, point); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// at inserts a moment into a fault.Schedule.
func at(faults, when string) string { return strings.ReplaceAll(faults, "%s", when) }

// reached returns when a request for the resource has reached a node, or after a second,
// since a client that is still connecting to a slow node may never send a request.
func (st *scenarioRun) reached(ctx context.Context, node int) error {
	enough := time.NewTimer(time.Second)
	defer enough.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		keys, err := st.nodes[node-1].Keys(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(keys, func(k redistest.Key) bool { return strings.Contains(k.Name, resource) }) {
			return nil
		}
		select {
		case <-look.C:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
