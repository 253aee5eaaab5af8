package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

const (
	// trialKeep is how long the store keeps the tokens of a trial.
	trialKeep = time.Minute
	trialTTL  = 2 * time.Second
	// trialLimit bounds all trials of a site.
	trialLimit = 5 * time.Second
	// trialsPerMaster makes it unlikely that a master of a cluster is left out.
	trialsPerMaster = 4
)

// tryRights does once what Holdfast does, with a resource of a random name, where ACL
// DRYRUN is not available.
func (s *site) tryRights(ctx context.Context, o Options) {
	masters := s.masters()
	if len(masters) == 0 || !slices.ContainsFunc(masters, func(m *server) bool { return !m.rights.asked }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	trials := 1
	if len(masters) > 1 {
		trials = trialsPerMaster * len(masters)
	}
	s.trial = &trial{}
	for range trials {
		if s.trial.err = s.try(ctx, o.Prefix); s.trial.err != nil {
			return
		}
	}
}

// trial is the outcome.
type trial struct{ err error }

// trialClient makes the calls of one trial, as one client.
type trialClient struct {
	engine.Engine
	prefix, client, name string
	woken                chan engine.Wakeup
}

// try acquires a lease, waits in the queue, is granted by a release, shares a semaphore,
// and reads a snapshot.
func (s *site) try(ctx context.Context, prefix string) (err error) {
	random := strings.ToLower(rand.Text())
	a := &trialClient{
		Engine: goredis.New(s.node.Client, goredis.WithRetention(trialKeep)),
		prefix: prefix, client: "doctor" + random[:12], name: "holdfast-doctor-" + random[12:],
		woken: make(chan engine.Wakeup, 16),
	}
	defer a.Leave(a.client)
	listener, err := a.Listen(ctx, prefix, a.client, func(w engine.Wakeup) {
		select {
		case a.woken <- w:
		default: // enough are buffered
		}
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := errors.Join(a.handOver(ctx), a.share(ctx)); err != nil {
		return err
	}
	key := prefix + ":client:" + a.client
	return errors.Join(
		s.node.Client.Set(ctx, key, "{}", time.Second).Err(), s.node.Client.Get(ctx, key).Err(),
		s.node.Client.Scan(ctx, 0, key, 1).Err(),
	)
}

func (a *trialClient) request(name, id string, kind engine.Kind, capacity int) engine.Request {
	return engine.Request{
		Resource: engine.Resource{Prefix: a.prefix, Name: a.name + name}, ID: a.client + "." + id,
		Kind: kind, Capacity: capacity, Weight: capacity, TTL: trialTTL, Queue: true, Reason: "holdfast doctor",
	}
}

// handOver acquires a lease and releases it to a waiter, which must receive a wake-up.
func (a *trialClient) handOver(ctx context.Context) error {
	first, second := a.request("", "1", engine.KindMutex, 1), a.request("", "2", engine.KindMutex, 1)
	granted, err := a.Acquire(ctx, first)
	if err != nil {
		return err
	}
	if _, err = a.Acquire(ctx, second); err == nil {
		err = a.Release(ctx, engine.Release{Resource: first.Resource, Held: engine.Held{ID: first.ID, Token: granted.Token}})
	}
	if err == nil {
		err = a.awaitGrant(ctx, second.ID)
	}
	if err == nil {
		_, err = a.Snapshot(ctx, first.Resource)
	}
	return errors.Join(err, a.withdraw(ctx, first, second))
}

// errNoWakeup: all calls succeed, but no wake-up arrives.
var errNoWakeup = errors.New("the wake-up did not come: PUBLISH is refused, or messages get lost")

// awaitGrant waits for the wake-up of a waiter.
func (a *trialClient) awaitGrant(ctx context.Context, id string) error {
	limit := time.NewTimer(trialTTL)
	defer limit.Stop()
	for {
		select {
		case w := <-a.woken:
			if w.Kind == engine.WakeGrant && w.ID == id {
				return nil
			}
		case <-limit.C:
			return errNoWakeup
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// share acquires two units of two and returns one.
func (a *trialClient) share(ctx context.Context) error {
	r := a.request("-shared", "3", engine.KindSemaphore, 2)
	granted, err := a.Acquire(ctx, r)
	if err != nil {
		return err
	}
	held := engine.Held{ID: r.ID, Token: granted.Token}
	err = errors.Join(a.Renew(ctx, []engine.Renewal{{Resource: r.Resource, Held: held, TTL: trialTTL}})...)
	if err == nil {
		err = a.Resize(ctx, r.Resource, held, 1)
	}
	return errors.Join(err, a.withdraw(ctx, r))
}

func (a *trialClient) withdraw(ctx context.Context, all ...engine.Request) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, a.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID}, Withdraw: true}))
	}
	return errors.Join(errs...)
}

// checkTrial reports the outcome of the trial.
func (s *site) checkTrial(o Options) []diagnosis.Finding {
	const check = "rights"
	if s.trial == nil {
		return nil
	}
	err := s.trial.err
	remedy := fmt.Sprintf("let the user run the commands in docs/PROTOCOL.md on '~%s:*' and '&%s:*'", o.Prefix, o.Prefix)
	switch {
	case err == nil:
		return []diagnosis.Finding{s.OK(check, "tried with a resource with a random name: everything that Holdfast needs is allowed")}
	case refusedBy(err), errors.Is(err, errNoWakeup):
		return []diagnosis.Finding{s.Fail(check, remedy, "tried with a resource with a random name: %s", short(err)).As(diagnosis.Denied)}
	case errors.Is(err, engine.ErrDenied):
		return []diagnosis.Finding{s.Fail(check, "check that this is Redis or Valkey, and what else uses the prefix", "tried with a resource with a random name: %s", short(err))}
	}
	return []diagnosis.Finding{s.Unknown(check, "resolve the other findings, then run doctor again", "tried with a resource with a random name: %s", short(err))}
}
