package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// electCmd is `holdfast elect`.
type electCmd struct {
	Name  text   `arg:"" help:"Name of the election."`
	Value text   `arg:"" optional:"" help:"What others see of this candidate while it leads, like its address; at most 1024 bytes."`
	Cmd   []text `arg:"" optional:"" name:"cmd" help:"Command and its arguments, after --."`

	Observe bool  `help:"Do not campaign: print who leads, and then every change."`
	Once    bool  `help:"End with exit code 79 when leadership is lost. With --observe: print who leads, and no more. Default: go on."`
	Wait    *span `short:"w" placeholder:"D" help:"Campaign for at most D, like 30s, then exit 75. Default: for as long as it takes."`

	guardFlags
}

// Help is the long text of --help.
func (*electCmd) Help() string {
	return `One of all candidates that name the same election leads and runs its CMD; the others wait in line. CMD runs
as under "holdfast run": it is stopped in time when leadership is lost, and finds HOLDFAST_RESOURCE (the
election's name), HOLDFAST_TOKEN (the fencing token of this term: give it along with every write),
HOLDFAST_HOLDER and HOLDFAST_TTL_MS in its environment. After a loss holdfast campaigns again, also while
the store is away, and runs CMD anew when it leads; with --once it does not. When CMD ends by itself, holdfast
resigns and ends with CMD's exit code. To resign is to end CMD, for example by TERM to holdfast.

--observe prints a line for who leads (or that nobody does) and for every change, within about a second, until
it is interrupted. With --json that is one object a line; its "leader" is null if nobody leads.

Exit codes: CMD's own, and those of "holdfast run"; 79 only with --once or when a signal came meanwhile.

Examples:
	holdfast elect dispatcher "$(hostname)" -- ./dispatcher --config prod.yaml
	holdfast elect --once --ttl 5s scheduler 10.0.0.7:8080 -- ./scheduler
	holdfast elect --observe dispatcher
	holdfast elect --observe --once --json dispatcher | jq -r .leader.value`
}

// Validate checks what the flags' types cannot.
func (c *electCmd) Validate() error {
	switch {
	case c.Observe && (c.Value != "" || len(c.Cmd) > 0):
		return errors.New("--observe takes the election's name alone")
	case c.Observe && c.Wait != nil:
		return errors.New("--observe does not campaign: leave -w away, or use timeout(1)")
	case c.Observe:
		return nil
	case len(c.Cmd) == 0:
		return errors.New("expected NAME VALUE -- CMD: a candidate needs a value for others to see, and a command to run")
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: name a program after --")
	case c.Wait != nil && *c.Wait == 0:
		return errors.New("-w needs a duration above 0: a candidate stands in line, however short")
	}
	return c.check(c.Wait)
}

// Run observes, or campaigns and runs the command in each term.
func (c *electCmd) Run(e *env) error {
	if c.Observe {
		return c.observe(e)
	}
	g := &guarded{guardFlags: c.guardFlags, verb: "elect", Resource: c.Name, Cmd: c.Cmd, Wait: c.Wait}
	return g.run(e, c.lock, func(w *watching) bool { return w.stopped() && !w.asked && !c.Once })
}

func (c *electCmd) lock(s *session) lock {
	e := s.Election(string(c.Name), holdfast.WithTTL(time.Duration(c.TTL)))
	return lock{wait: func(ctx context.Context) (*holdfast.Lease, error) { return e.Campaign(ctx, string(c.Value)) }}
}

// observe prints who leads until it is interrupted.
func (c *electCmd) observe(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	defer end()
	// A store that is away from the beginning is told; later on it is ridden out.
	err = s.reach(ctx)
	if err == nil {
		for l, failure := range s.Election(string(c.Name)).Observe(ctx) {
			if err = failure; err == nil {
				err = c.print(e, l)
			}
			if err != nil || c.Once {
				break
			}
		}
	}
	if sig := signalOf(ctx); sig != nil {
		return sig
	}
	if err != nil {
		return explain(err, s.at)
	}
	return nil
}

// jsonElection is a change as --observe prints it with --json.
type jsonElection struct {
	Time     time.Time   `json:"time"` // of this machine, when it was seen
	Resource string      `json:"resource"`
	Leader   *jsonLeader `json:"leader"` // null: nobody leads
}

type jsonLeader struct {
	Value  string    `json:"value"`
	Holder string    `json:"holder"`
	Token  uint64    `json:"token"`
	Since  time.Time `json:"since"`
}

func (c *electCmd) print(e *env, l holdfast.Leader) error {
	now := time.Now()
	if c.JSON {
		out := jsonElection{Time: now.UTC(), Resource: string(c.Name)}
		if l.Token != 0 {
			out.Leader = &jsonLeader{l.Value, l.HolderID, l.Token, l.Since.UTC()}
		}
		return writeJSON(e.stdout, out)
	}
	if l.Token == 0 {
		_, err := fmt.Fprintf(e.stdout, "%s  nobody leads %q\n", since(now), c.Name)
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "%s  %s leads %q since %s, token %d, holder ID %s\n",
		since(now), cell(l.Value), c.Name, since(l.Since), l.Token, l.HolderID)
	return err
}
