package virtual

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// An error of a call needs a fault of its client or its store, at that time, or another caller.
func TestErrorsNeedAReason(t *testing.T) {
	refused := fmt.Errorf("%w: %w", holdfast.ErrNotAcquired, context.DeadlineExceeded)
	failing := fmt.Errorf("%w: %w", refused, holdfast.ErrUnavailable)
	cut := fmt.Errorf("%w (%w: %w)", refused, holdfast.ErrUnavailable, context.DeadlineExceeded)
	one := func(do Action, client string, from, to time.Duration) *incidentLog {
		return &incidentLog{all: []incident{{do: do, client: client, resource: "r", from: from * time.Second, to: to * time.Second}}}
	}
	other := func(resource string, to time.Duration) *incidentLog {
		return &incidentLog{calls: []call{{"q", resource, 0, to * time.Second, nil}}}
	}
	// refusals has a call that was refused and ended at an instant, and others that ended well.
	refusals := func(to time.Duration, granted ...time.Duration) *incidentLog {
		l := &incidentLog{calls: []call{{"q", "r", 0, to * time.Second, refused}}}
		for _, at := range granted {
			l.calls = append(l.calls, call{"o", "r", at * time.Second, at * time.Second, nil})
		}
		return l
	}
	// queue has a call that was granted and ended at an instant, and calls after it that were refused, 900 ms apart, each of which took so long.
	queue := func(from time.Duration, each time.Duration) *incidentLog {
		l := &incidentLog{calls: []call{{"o", "r", 0, from, nil}}}
		for at := from + 900*time.Millisecond; at < 21*time.Second; at += 900 * time.Millisecond {
			l.calls = append(l.calls, call{"q", "r", at - each, at, refused})
		}
		return l
	}
	for name, c := range map[string]struct {
		log  *incidentLog
		err  error
		want bool // explained
	}{
		"no error":                                      {&incidentLog{}, nil, true},
		"no fault":                                      {&incidentLog{}, holdfast.ErrUnavailable, false},
		"no fault, and the wait ended":                  {&incidentLog{}, failing, false},
		"a cut link":                                    {one(Cut, "p", 19, 20), holdfast.ErrUnavailable, true},
		"a cut link, just before":                       {one(Cut, "p", 10, 15), failing, true},
		"a cut link, long before":                       {one(Cut, "p", 10, 12), failing, false},
		"a cut link later":                              {one(Cut, "p", 22, 23), holdfast.ErrUnavailable, false},
		"a cut link of another client":                  {one(Cut, "q", 19, 20), holdfast.ErrUnavailable, false},
		"a store that was down":                         {one(Down, "", 19, 20), holdfast.ErrUnavailable, true},
		"a pause":                                       {one(Pause, "p", 19, 20), holdfast.ErrLost, true},
		"lost wake-ups":                                 {one(Mute, "p", 19, 20), holdfast.ErrUnavailable, false},
		"a break, lost":                                 {one(Break, "", 19, 20), holdfast.ErrLost, true},
		"a break, unavailable":                          {one(Break, "", 19, 20), holdfast.ErrUnavailable, false},
		"refused for nothing":                           {&incidentLog{}, refused, false},
		"refused after a fault of another client":       {one(Crash, "q", 1, 2), refused, true},
		"refused, and somebody has it":                  {other("r", 30), refused, true},
		"refused, and somebody had it":                  {other("r", 10), refused, false},
		"refused, and somebody has something else":      {other("s", 30), refused, false},
		"refused, and another was as well":              {refusals(30), refused, false},
		"refused, and another was by somebody":          {refusals(20, 20), refused, true},
		"refused, and another was much earlier":         {refusals(20, 10), refused, false},
		"refused, and others who waited were before":    {queue(17500*time.Millisecond, time.Second/2), refused, true},
		"refused, and others who did not wait were":     {queue(17500*time.Millisecond, 0), refused, false},
		"refused, and others have been for long":        {queue(time.Second, time.Second/2), refused, false},
		"refused, and another just tried":               {&incidentLog{calls: []call{{"q", "r", 20 * time.Second, 20 * time.Second, refused}}}, refused, false},
		"the store is unavailable, and somebody has it": {other("r", 30), failing, false},
		"the end cut off a poll, and somebody has it":   {other("r", 30), cut, true},
		"the end cut off a poll, and nobody has it":     {&incidentLog{}, cut, false},
		"another error":                                 {one(Cut, "p", 19, 20), errors.New("a bug"), false},
	} {
		c.log.calls = append(c.log.calls, call{"p", "r", 18 * time.Second, 21 * time.Second, c.err})
		if found := c.log.unexplained(time.Second, time.Second); (len(found) == 0) != c.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A lease that is lost, and a release that fails, need a reason too.
func TestLossesNeedAReason(t *testing.T) {
	const s = time.Second
	acquired := history.Op{Client: "p", Kind: history.Acquire, Resource: "r", Holder: "p-1", Call: s, Return: s, Outcome: history.OK, Until: 3 * s}
	lost := history.Op{Client: "p", Kind: history.Lost, Resource: "r", Holder: "p-1", Call: 20 * s, Return: 20 * s, Outcome: history.OK}
	release := history.Op{Client: "p", Kind: history.Release, Resource: "r", Holder: "p-1", Call: 20 * s, Return: 20 * s, Outcome: history.Unknown, Note: "unavailable"}
	for name, c := range map[string]struct {
		op   history.Op
		step Step
		all  []incident
		want bool
	}{
		"lost":                      {lost, Step{TTL: s, Wait: 100 * s}, nil, false},
		"lost after a pause":        {lost, Step{TTL: s, Wait: 100 * s}, []incident{{do: Pause, client: "p", from: 19 * s, to: 20 * s}}, true},
		"lost long after a pause":   {lost, Step{TTL: s, Wait: 100 * s}, []incident{{do: Pause, client: "p", from: 2 * s, to: 3 * s}}, false},
		"lost, pause of another":    {lost, Step{TTL: s, Wait: 100 * s}, []incident{{do: Pause, client: "q", from: 19 * s, to: 20 * s}}, false},
		"lost as it is broken":      {lost, Step{TTL: s, Wait: 100 * s}, []incident{{do: Break, resource: "r", from: 19 * s, to: 20 * s}}, true},
		"lost, another is broken":   {lost, Step{TTL: s, Wait: 100 * s}, []incident{{do: Break, resource: "s", from: 19 * s, to: 20 * s}}, false},
		"not renewed":               {lost, Step{TTL: s, Wait: 100 * s, Way: NoRenewal}, nil, true},
		"not released":              {release, Step{TTL: s, Wait: 100 * s}, nil, false},
		"not released during a cut": {release, Step{TTL: s, Wait: 100 * s}, []incident{{do: Cut, client: "p", from: 19 * s, to: 21 * s}}, true},
		"no time for the release":   {release, Step{TTL: s, Wait: 19 * s}, nil, true},
	} {
		w := &simulation{steps: map[string]Step{"p-1": c.step}, incidents: incidentLog{all: c.all}}
		if found := w.kept([]history.Op{acquired, c.op}); (len(found) == 0) != c.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}
