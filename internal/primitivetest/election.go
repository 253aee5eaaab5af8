package primitivetest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// electionProgram is a script of candidates.
type electionProgram []step

func drawElection(t *random.T, least int) Script {
	return electionProgram(random.SliceOfN(random.Custom(func(t *random.T) step {
		s := drawStep(t)
		if s.Do == "lock" || s.Do == "try" {
			s.Do = random.SampledFrom([]string{"campaign", "campaign", "lead", "lead", "pause"}).Draw(t, "as")
		}
		s.Opts = random.SampledFrom([]string{"", "", "short"}).Draw(t, "ttl")
		return s
	}), least, 40).Draw(t, "program"))
}

// electionRun runs candidates, which exclusive checks, and observers.
type electionRun struct {
	exclusive
	observers []uint64 // the highest token that the observer of each client has seen
}

func (w *electionRun) election(s step) *holdfast.Election {
	return w.clients[s.Client].Election("x", w.ttl(s.ttl()))
}

// ttl returns the TTL that Opts stands for.
func (s step) ttl() time.Duration {
	if s.Opts == "short" {
		return 300 * time.Millisecond
	}
	return usualTTL
}

// campaign campaigns, holds the lease and releases it. It reports whether it was elected.
func (w *electionRun) campaign(s step) bool {
	var l *holdfast.Lease
	err := w.bounded(s, func(ctx context.Context) (err error) {
		l, err = w.election(s).Campaign(ctx, "candidate")
		return err
	})
	if err != nil {
		if !w.refused(err, s.Client, w.ttlOf(s.ttl())) {
			w.fail("%s: %v", s.Do, err)
		}
		return false
	}
	w.hold(l, s.Hold)
	_ = l.Release(context.Background()) // the lease may be lost, or the store unreachable
	return true
}

// errEnough is the error by which some calls of Lead end.
var errEnough = errors.New("enough")

func (w *electionRun) lead(s step) {
	ctx, cancel := context.WithTimeout(context.Background(), w.span(s.Wait))
	defer cancel()
	inside := false
	err := w.election(s).Lead(ctx, "leader", func(ctx context.Context) error {
		if inside {
			w.fail("fn is called while it runs")
		}
		inside = true
		defer func() { inside = false }()
		w.hold(holdfast.LeaseFromContext(ctx), s.Hold)
		if s.Sleep == 0 {
			return errEnough
		}
		return ctx.Err()
	})
	tooShort := errors.Is(err, holdfast.ErrInvalid) && w.refused(err, s.Client, w.ttlOf(s.ttl()))
	if !tooShort && !errors.Is(err, errEnough) && !errors.Is(err, context.DeadlineExceeded) {
		w.fail("%s: %v", s.Do, err)
	}
}

// observe checks that an observer never sees an earlier term again.
func (w *electionRun) observe(ctx context.Context, client int) {
	vacant := false
	for l, err := range w.clients[client].Election("x").Observe(ctx) {
		w.mu.Lock()
		switch seen := w.observers[client]; {
		case err != nil:
			w.failing("observer: %v", err)
		case l.Token == 0 && vacant:
			w.failing("observer: no leader, twice")
		case l.Token != 0 && l.Token <= seen && !(l.Token == seen && vacant && w.Clockless):
			w.failing("observer: token %d after %d", l.Token, seen)
		case l.Token != 0 && l.Value != "candidate" && l.Value != "leader":
			w.failing("observer: %+v", l)
		}
		vacant = l.Token == 0
		w.observers[client] = max(w.observers[client], l.Token)
		w.mu.Unlock()
	}
}

func (w *electionRun) do(s step) {
	switch s.Do {
	case "campaign":
		w.actors.Go(func() { w.campaign(s) })
	case "lead":
		w.actors.Go(func() { w.lead(s) })
	case "pause":
		// Requests arrive after the pause, as those of a paused machine do.
		w.nets[s.Client].Slow(w.span(s.Hold), 0)
		w.actors.Go(func() {
			w.elapse(s.Hold)
			w.nets[s.Client].All(nil)
		})
	case "break holder", "break waiter":
		w.Idle()
		w.breakLease("x", s.Do == "break holder")
	default:
		w.Idle()
		w.setNetwork(s)
	}
	w.Idle()
	w.elapse(s.Sleep)
}

// Play checks that no two candidates lead at once, that tokens increase from term to
// term, that observers never see an earlier term again, and that every candidate can
// lead at the end.
func (p electionProgram) Play(s *Environment) []string {
	w := &electionRun{observers: make([]uint64, 3)}
	w.openClients(s, len(w.observers))
	watch, unwatch := context.WithCancel(context.Background())
	defer unwatch()
	for i := range w.clients {
		w.actors.Go(func() { w.observe(watch, i) })
	}
	for _, st := range p {
		w.do(st)
	}
	w.healAll()
	for i := range w.clients {
		if !w.campaign(step{Do: "campaign", Client: i, Wait: time.Duration(w.Pace) * 30 * time.Second}) {
			w.fail("client %d could not lead at the end", i)
		}
	}
	unwatch()
	w.actors.Wait()
	return w.close("x")
}
