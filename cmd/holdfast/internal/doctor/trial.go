package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

const (
	// trialKeep is how long the store keeps the tokens of a trial.
	trialKeep = time.Minute
	// trialLimit bounds all trials of a site.
	trialLimit = 5 * time.Second
	// trialsPerMaster makes it unlikely that a master of a cluster is left out.
	trialsPerMaster = 4
)

// tryRights does once what Holdfast does, with a resource of a random name, where ACL
// DRYRUN is not available.
func (s *site) tryRights(ctx context.Context, o diagnosis.Options) {
	masters := s.masters()
	if o.ReadOnly || !needTrial(masters) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	trials := 1
	if len(masters) > 1 {
		trials = trialsPerMaster * len(masters)
	}
	s.trial = &rightsTrial{}
	for range trials {
		if s.trial.err = s.try(ctx, o.Prefix); s.trial.err != nil {
			return
		}
	}
}

// needTrial reports whether the rights on one of the masters could not be queried.
func needTrial(masters []*server) bool {
	return slices.ContainsFunc(masters, func(m *server) bool { return !m.rights.asked })
}

// rightsTrial is the outcome.
type rightsTrial struct{ err error }

// try runs a trial, and what else Holdfast sends.
func (s *site) try(ctx context.Context, prefix string) error {
	e := goredis.New(s.node.Client, goredis.WithRetention(trialKeep))
	t, err := trial.Run(ctx, e, e, prefix)
	if err != nil {
		return err
	}
	key := prefix + ":client:" + t.Client
	return errors.Join(
		s.node.Client.Set(ctx, key, "{}", time.Second).Err(), s.node.Client.Get(ctx, key).Err(),
		s.node.Client.Scan(ctx, 0, key, 1).Err(),
	)
}

// checkTrial reports the outcome of the trial.
func (s *site) checkTrial(r *diagnosis.Report, o diagnosis.Options) {
	c := s.Check("rights", &r.Findings)
	switch {
	case s.trial != nil:
	case o.ReadOnly && needTrial(s.masters()):
		c.Unknown("run holdfast doctor, which tries them", "the server does not say which rights the user has, and nothing is tried here")
		return
	default:
		return
	}
	err := s.trial.err
	remedy := fmt.Sprintf("let the user run the commands in docs/PROTOCOL.md on '~%s:*' and '&%s:*'", o.Prefix, o.Prefix)
	switch {
	case err == nil:
		c.OK("tried with a resource with a random name: everything that Holdfast needs is allowed")
	case refusedBy(err), errors.Is(err, trial.ErrNoWakeup):
		c.FailAs(diagnosis.Denied, remedy, "tried with a resource with a random name: %s", diagnosis.OneLine(err))
	case errors.Is(err, engine.ErrDenied):
		c.Fail("check that this is Redis or Valkey, and what else uses the prefix", "tried with a resource with a random name: %s", diagnosis.OneLine(err))
	default:
		c.Unknown(diagnosis.Again, "tried with a resource with a random name: %s", diagnosis.OneLine(err))
	}
}
