package doctorstores

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/trial"
	"github.com/holdfast-go/holdfast/engine"
)

const (
	// reachLimit bounds the first answer of a store.
	reachLimit = 3 * time.Second
	// askLimit bounds all other questions together.
	askLimit = 10 * time.Second
	// trialLimit bounds the trial.
	trialLimit = 8 * time.Second
	// nearlyFull is the fraction of a limit above which there is a warning.
	nearlyFull = 0.8
	// longOpen is for how long a foreign transaction may be open without a warning.
	longOpen = 5 * time.Minute
)

// Subject is a store, as it is used for locks.
type Subject struct {
	diagnosis.Place
	diagnosis.Options
	// Engine returns a new engine on the store, as the locks use it.
	Engine func() engine.Engine
}

// examination is what those of all stores have in common: the findings so far.
type examination struct {
	Subject
	worst    time.Duration // the longest round trip that was seen
	findings []diagnosis.Finding
}

func (e *examination) check(name string) diagnosis.Check { return e.Place.Check(name, &e.findings) }

// reach measures round trips. It reports whether the store answers.
func (e *examination) reach(ctx context.Context, what string, refused func(error) bool, ping func(ctx context.Context) error) bool {
	c := e.check("reach")
	first, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	err := ping(first) // with the connection, which is not measured
	var trips diagnosis.RoundTrips
	if err == nil {
		rest, cancel := context.WithTimeout(ctx, reachLimit)
		defer cancel()
		trips, err = diagnosis.MeasureRoundTrips(func() error { return ping(rest) })
	}
	switch {
	case err != nil && refused(err):
		c.FailAs(diagnosis.Denied, "check the user, the password and the database in the URL, and what the server lets in", "refused: %s", diagnosis.OneLine(err))
		return false
	case err != nil:
		c.FailAs(diagnosis.Unreachable, "check that it runs, the address in the URL, and the network in between", "no answer: %s", diagnosis.OneLine(err))
		return false
	}
	e.worst = trips.Longest()
	c.With("rtt_median_ms", diagnosis.Millis(trips.Median())).With("rtt_max_ms", diagnosis.Millis(trips.Longest())).
		OK("%s; %d round trips: median %s, max %s", what, len(trips), diagnosis.Span(trips.Median()), diagnosis.Span(trips.Longest()))
	return true
}

// clockWarn is the difference of a clock above which there is a warning.
const clockWarn = time.Second

// clock compares the store's clock with this machine's: leases do not depend on the difference, but after a failover
// to a server whose clock differs all of them end early or late.
func (e *examination) clock(read func() (time.Time, error)) {
	c := e.check("clock")
	r, err := diagnosis.ReadClock(read)
	if !r.Known {
		c.Unanswered(err)
		return
	}
	c = c.With("ahead_ms", diagnosis.Millis(r.Ahead))
	if r.Ahead.Abs() > clockWarn+r.Error {
		c.Warn("let all machines set their clocks by NTP, slewing",
			"%s: one of the two is wrong; leases end by the store's clock, so setting it ends them early or late", r)
		return
	}
	c.OK("%s; for information: clocks of clients do not matter", r)
}

// versionAt is the version of a server, or "".
type versionAt struct {
	diagnosis.Place
	version string
}

// compareVersions checks those of several servers.
func (e *examination) compareVersions(name, oldest, servers string, all []versionAt) {
	c := e.check("version")
	var versions []string
	for _, v := range all {
		switch {
		case v.version == "":
		case diagnosis.Older(v.version, oldest):
			c.At(v.Place).With("version", v.version).Fail("upgrade to "+name+" "+oldest+" or newer", "%s %s is too old", name, v.version)
			return
		case !slices.Contains(versions, v.version):
			versions = append(versions, v.version)
		}
	}
	switch len(versions) {
	case 0:
	case 1:
		c.With("version", versions[0]).OK("%s %s", name, versions[0])
	default:
		c.With("versions", versions).Warn("finish the upgrade", "the %s differ: %s", servers, strings.Join(versions, ", "))
	}
}

// failed reports whether a finding is a failure.
func (e *examination) failed() bool {
	return slices.ContainsFunc(e.findings, func(f diagnosis.Finding) bool { return f.Status == diagnosis.Fail })
}

// try acquires, hands off and releases a lease, unless it is known already that this fails. remedy is for wake-ups
// that do not come.
func (e *examination) try(ctx context.Context, remedy string) {
	c := e.check("trial")
	if e.failed() {
		return
	}
	if e.ReadOnly {
		c.Unknown("run holdfast doctor, which tries it", "nothing is acquired here, so it is not known whether a lease can be acquired, handed off and released")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	t, err := trial.Run(ctx, e.Engine(), e.Engine(), e.Prefix)
	switch {
	case err == nil:
		e.worst = max(e.worst, t.Release)
		c.With("acquire_ms", diagnosis.Millis(t.Acquire)).With("release_ms", diagnosis.Millis(t.Release)).With("hand_off_ms", diagnosis.Millis(t.HandOff)).
			OK("a lease was acquired in %s, released in %s, and handed off in %s", diagnosis.Span(t.Acquire), diagnosis.Span(t.Release), diagnosis.Span(t.HandOff))
	case errors.Is(err, trial.ErrNoWakeup):
		e.worst = max(e.worst, t.Release)
		c.Warn(remedy, "a lease was acquired in %s and released in %s, and the wake-up of the next waiter did not come: a hand-off takes up to %s",
			diagnosis.Span(t.Acquire), diagnosis.Span(t.Release), engine.PollInterval)
	case errors.Is(err, engine.ErrDenied):
		c.FailAs(diagnosis.Denied, "see what the error says", "%s", diagnosis.OneLine(err))
	default:
		c.FailAs(diagnosis.Unreachable, diagnosis.Again, "a lease could not be acquired, handed off and released: %s", diagnosis.OneLine(err))
	}
}

// ttl compares the TTL in use with the longest round trip.
func (e *examination) ttl() { diagnosis.Lifetime(e.check("ttl"), e.worst, 0, e.Options) }
