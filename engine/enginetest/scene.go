package enginetest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// long is the TTL of leases that must not end in a test.
	long = 30 * time.Second
	// short is the TTL of leases that end in a test. A test may count on one
	// only for what it does within the next moments.
	short = time.Second
	// eventTimeout is how long an event may take that has to come.
	eventTimeout = 10 * time.Second
)

// scene is one test: an engine, and a resource that no other test uses.
type scene struct {
	testing.TB
	ctx    context.Context
	engine engine.Engine
	res    engine.Resource
	began  time.Time
	options
}

func newScene(t testing.TB, e engine.Engine) *scene {
	return &scene{TB: t, ctx: t.Context(), engine: e, res: engine.Resource{Prefix: "et-" + rand.Text(), Name: "stock:42"}, began: time.Now()}
}

// least returns what is left at least, now, of a span that began with the scene or later:
// the machine may have stood still meanwhile.
func (s *scene) least(span time.Duration) time.Duration { return span - time.Since(s.began) - short }

// most returns what is left at most of a lease, for others than its holder: an engine that
// estimates its store's clock lets the lease last longer there by what it is not sure of.
func most(span time.Duration) time.Duration { return span + short }

// on is the same test with another resource.
func (s *scene) on(name string) *scene {
	other := *s
	other.res.Name = name
	return &other
}

// party is a client with an open stream of wake-ups.
type party struct {
	*scene
	who   engine.Client
	wakes chan engine.Wakeup
	ended map[string]bool // the IDs about whose break there was a wake-up: there may be another
}

func (s *scene) party(name string) *party {
	s.Helper()
	p := &party{
		scene: s, wakes: make(chan engine.Wakeup, 1024), ended: map[string]bool{},
		who: engine.Client{ID: name + rand.Text(), Name: name, Host: "host-of-" + name, PID: 4242},
	}
	l, err := s.engine.Listen(s.ctx, s.res.Prefix, p.who.ID, func(w engine.Wakeup) { p.wakes <- w })
	if err != nil {
		s.Fatalf("Listen: %v", err)
	}
	s.Cleanup(func() {
		if err := l.Close(); err != nil {
			s.Errorf("closing the listener of %s: %v", name, err)
		}
		s.engine.Leave(p.who.ID)
	})
	return p
}

func (s *scene) parties(names ...string) []*party {
	s.Helper()
	var all []*party
	for _, name := range names {
		all = append(all, s.party(name))
	}
	return all
}

// request is a patient attempt on a mutex, with a new holder ID.
func (p *party) request() engine.Request {
	return engine.Request{
		Resource: p.res, ID: p.who.ID + "." + rand.Text(), Client: &p.who,
		Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: long, Queue: true, Reason: "reason of " + p.who.Name,
	}
}

// weighing is a patient attempt on a semaphore.
func (p *party) weighing(weight, capacity int) engine.Request {
	r := p.request()
	r.Kind, r.Weight, r.Capacity = engine.KindSemaphore, weight, capacity
	return r
}

// once is the same attempt that does not wait.
func once(r engine.Request) engine.Request {
	r.Queue = false
	return r
}

func lasting(ttl time.Duration, r engine.Request) engine.Request {
	r.TTL = ttl
	return r
}

func (s *scene) acquire(r engine.Request) engine.Answer {
	s.Helper()
	a, err := s.engine.Acquire(s.ctx, r)
	if err != nil {
		s.Fatalf("Acquire: %v", err)
	}
	return a
}

// hold acquires, and wants it granted at once.
func (s *scene) hold(r engine.Request) engine.Held {
	s.Helper()
	a := s.acquire(r)
	if a.Status != engine.Granted {
		s.Fatalf("got %+v, want it granted", a)
	}
	return engine.Held{ID: r.ID, Token: a.Token}
}

// wait acquires, and wants it queued with so many ahead.
func (s *scene) wait(r engine.Request, ahead int) {
	s.Helper()
	if a := s.acquire(r); a.Status != engine.Queued || a.Position != ahead && !s.unordered {
		s.Fatalf("got %+v, want it queued with %d ahead", a, ahead)
	}
}

// refuse acquires, and wants Busy.
func (s *scene) refuse(r engine.Request) engine.Answer {
	s.Helper()
	a := s.acquire(r)
	if a.Status != engine.Busy {
		s.Fatalf("got %+v, want busy", a)
	}
	return a
}

func (s *scene) release(h engine.Held) {
	s.Helper()
	if err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: h}); err != nil {
		s.Fatalf("Release: %v", err)
	}
}

func (s *scene) withdraw(id string) {
	s.Helper()
	if err := s.engine.Release(s.ctx, engine.Release{Resource: s.res, Held: engine.Held{ID: id}, Withdraw: true}); err != nil {
		s.Fatalf("withdrawing: %v", err)
	}
}

// breaks breaks a lease or a wait, and returns the error.
func (s *scene) breaks(id string) error {
	s.Helper()
	return s.engine.Break(s.ctx, s.res, engine.Break{ID: id})
}

// renew extends one lease and returns the error.
func (s *scene) renew(h engine.Held, ttl time.Duration) error {
	s.Helper()
	errs := s.engine.Renew(s.ctx, []engine.Renewal{{Resource: s.res, Held: h, TTL: ttl}})
	if len(errs) != 1 {
		s.Fatalf("Renew of one lease gave %d results", len(errs))
	}
	return errs[0]
}

func (s *scene) snapshot() engine.Snapshot {
	s.Helper()
	snap, err := s.engine.Snapshot(s.ctx, s.res)
	if err != nil {
		s.Fatalf("Snapshot: %v", err)
	}
	return snap
}

// wantNotHeld wants a *NotHeldError with this cause.
func (s *scene) wantNotHeld(err error, want engine.Cause) {
	s.Helper()
	if lost, ok := errors.AsType[*engine.NotHeldError](err); !ok || lost.Cause != want {
		s.Fatalf("got error %v, want not held: %v", err, want)
	}
}

// wantEnded wants the store to refuse an ID for ever.
func (s *scene) wantEnded(r engine.Request, want engine.Cause) {
	s.Helper()
	_, err := s.engine.Acquire(s.ctx, r)
	over, ok := errors.AsType[*engine.EndedError](err)
	if !errors.Is(err, engine.ErrEnded) || !ok || over.Cause != want {
		s.Fatalf("got error %v, want ended: %v", err, want)
	}
}

// granted waits for the wake-up that grants a request. As a client does, it
// polls when wake-ups may have been lost.
func (p *party) granted(r engine.Request) engine.Wakeup {
	p.Helper()
	limit := time.After(eventTimeout)
	for {
		select {
		case w := <-p.wakes:
			switch {
			case w.Kind == engine.WakeGrant && w.ID == r.ID:
				return w
			case w.Kind == engine.Resync:
				if a := p.acquire(r); a.Status == engine.Granted {
					return asGrant(r, a)
				}
			case w.Kind == engine.WakeBroken && p.ended[w.ID]:
			default:
				p.Fatalf("%s got %+v, want a grant to %s", p.who.Name, w, r.ID)
			}
		case <-p.again():
			if a := p.acquire(r); a.Status == engine.Granted {
				return asGrant(r, a)
			}
		case <-limit:
			p.Fatalf("%s got no wake-up about its grant", p.who.Name)
		}
	}
}

// asGrant is the wake-up that would have carried an answer.
func asGrant(r engine.Request, a engine.Answer) engine.Wakeup {
	return engine.Wakeup{Kind: engine.WakeGrant, ID: r.ID, Token: a.Token, TTL: min(a.TTL, engine.ClaimWindow)}
}

// again is when a waiter polls, where that is needed.
func (s *scene) again() <-chan time.Time {
	if !s.unordered {
		return nil
	}
	return time.After(10 * time.Millisecond)
}

// handed is granted, for what follows.
func (p *party) handed(r engine.Request) engine.Held {
	p.Helper()
	return engine.Held{ID: r.ID, Token: p.granted(r).Token}
}

// await takes wake-ups until one is what the party waits for.
func (p *party) await(missed string, done func(engine.Wakeup) bool) {
	p.Helper()
	limit := time.After(eventTimeout)
	for {
		select {
		case w := <-p.wakes:
			if done(w) {
				return
			}
		case <-limit:
			p.Fatalf("%s was not %s", p.who.Name, missed)
		}
	}
}

// broken waits for the wake-up about an operator's break.
func (p *party) broken(id string) {
	p.Helper()
	p.await("notified of the break", func(w engine.Wakeup) bool { return w.Kind == engine.WakeBroken && w.ID == id })
	p.ended[id] = true
}

// silent wants that no grant or break has been delivered so far.
func (p *party) silent() {
	p.Helper()
	p.nothing(func(w engine.Wakeup) bool { return w.Kind == engine.Resync || p.ended[w.ID] })
}

// nothing wants that nothing has been delivered so far, but what is of no concern.
func (p *party) nothing(but func(engine.Wakeup) bool) {
	p.Helper()
	for {
		select {
		case w := <-p.wakes:
			if !but(w) {
				p.Fatalf("%s got %+v, want nothing", p.who.Name, w)
			}
		default:
			return
		}
	}
}

// poll sends the request until it is granted: how a waiter makes progress without wake-ups.
func (p *party) poll(r engine.Request) engine.Held {
	p.Helper()
	return p.pollWith(r, func(time.Time, engine.Answer) {})
}

// pollWith is poll. It passes each answer that is no grant to refused, with the time when its request
// was sent: unlike the time of the grant, that is no later on a machine that stalls.
func (p *party) pollWith(r engine.Request, refused func(sent time.Time, a engine.Answer)) engine.Held {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(eventTimeout); time.Now().Before(limit); <-tick.C {
		sent := time.Now()
		a := p.acquire(r)
		if a.Status == engine.Granted {
			return engine.Held{ID: r.ID, Token: a.Token}
		}
		refused(sent, a)
	}
	p.Fatalf("%s was not granted", p.who.Name)
	return engine.Held{}
}

// pass lets time go by: what a test waits for is the end of a known span.
func (s *scene) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// passTTL waits until what ends after a TTL has ended in the store, too.
func (s *scene) passTTL(d time.Duration) {
	grace := 10 * time.Millisecond
	if s.options.estimates {
		grace = 200 * time.Millisecond
	}
	start, err := s.engine.Now(s.ctx)
	s.pass(d + grace)
	for now := start; err == nil && now.Sub(start) < d; now, err = s.engine.Now(s.ctx) {
		s.pass(time.Millisecond) // the clock of a busy server may be late
	}
}
