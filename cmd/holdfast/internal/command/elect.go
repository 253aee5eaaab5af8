package command

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
	Value text   `arg:"" optional:"" help:"What others see while this candidate leads, such as its address; at most 1024 bytes."`
	Cmd   []text `arg:"" optional:"" name:"cmd" help:"Command and its arguments, after --."`

	Observe bool  `help:"Do not campaign: print the leader, and then every change."`
	Once    bool  `help:"Exit with code 79 when leadership is lost. With --observe: print the leader and exit, with code 1 if there is none. Default: continue."`
	Wait    *span `short:"w" placeholder:"D" help:"Campaign for at most D, such as 30s, then exit 75. Default: no limit."`

	guardFlags
}

// Help is the long text of --help.
func (*electCmd) Help() string {
	return `Of all candidates of an election one leads and runs its CMD; the others wait in the queue. CMD runs as under
"holdfast run": it is stopped in time when leadership is lost. Its environment has HOLDFAST_RESOURCE (the
election's name), HOLDFAST_TOKEN (the fencing token of this term: send it with every write), HOLDFAST_HOLDER and
HOLDFAST_TTL_MS. After a loss, holdfast campaigns again, also while the store is unavailable, and runs CMD again
when it leads; with --once it exits. When CMD ends by itself, holdfast resigns and exits with CMD's code. To
resign, end CMD, for example by TERM to holdfast.

A candidate that waits prints the leader once, and then only changes: another leader, or an outage of the store. On a
terminal its status is one line that is drawn each second.

--observe prints the leader (or that there is none) and then every change, within about a second, until it is
interrupted. With --json each is one object on a line; its "leader" is null if there is none.

Exit codes: CMD's own, and those of "holdfast run"; 79 only with --once or if a signal arrived meanwhile.
With --observe --once: 0 if there is a leader, 1 if there is none.

Examples:
	holdfast elect dispatcher "$(hostname)" -- ./dispatcher --config prod.yaml
	holdfast elect --once --ttl 5s scheduler 10.0.0.7:8080 -- ./scheduler
	holdfast elect --observe dispatcher
	holdfast elect --observe --once dispatcher || echo "no leader"
	holdfast elect --observe --once --json dispatcher | jq -r .leader.value`
}

// Validate checks what the flags' types cannot.
func (c *electCmd) Validate() error {
	switch {
	case c.Observe && (c.Value != "" || len(c.Cmd) > 0):
		return errors.New("--observe takes the election's name alone")
	case c.Observe && c.Wait != nil:
		return errors.New("--observe does not campaign: omit -w, or use timeout(1)")
	case c.Observe:
		return nil
	case len(c.Cmd) == 0:
		return errors.New("expected NAME VALUE -- CMD: a candidate needs a value for others to see, and a command to run")
	case c.Cmd[0] == "":
		return errors.New("CMD is empty: put a program after --")
	case c.Wait != nil && *c.Wait == 0:
		return errors.New("-w needs a duration above 0: a candidate waits in the queue")
	}
	return c.check(c.Wait)
}

// Run observes, or campaigns and runs the command in each term.
func (c *electCmd) Run(e *env) error {
	if c.Observe {
		return e.with(func(ctx context.Context, s *session) error { return c.observe(ctx, e, s) })
	}
	g := &guarded{guardFlags: c.guardFlags, verb: "elect", Resource: c.Name, Cmd: c.Cmd, Wait: c.Wait}
	return g.run(e, c.lock, func(w *supervision) bool { return w.stopped() && !w.asked && !c.Once })
}

func (c *electCmd) lock(s *session) lock {
	e := s.Election(string(c.Name), holdfast.WithTTL(time.Duration(c.TTL)))
	return lock{wait: func(ctx context.Context) (*holdfast.Lease, error) { return e.Campaign(ctx, string(c.Value)) }}
}

// observe prints the leader, and each change, until ctx ends.
func (c *electCmd) observe(ctx context.Context, e *env, s *session) error {
	// If the store is unavailable at the start, that is an error. Later outages are not.
	if _, err := s.now(ctx); err != nil {
		return err
	}
	for l, err := range s.Election(string(c.Name)).Observe(ctx) {
		if err == nil {
			err = c.print(e, l)
		}
		if err == nil && c.Once && l.Token == 0 {
			err = &exitError{code: exitNo} // the output says that there is no leader
		}
		if err != nil || c.Once {
			return err
		}
	}
	return nil
}

// jsonElection is a change as --observe prints it with --json.
type jsonElection struct {
	Time     time.Time   `json:"time"` // of this machine, when it was seen
	Resource string      `json:"resource"`
	Leader   *jsonLeader `json:"leader"` // null: no leader
	Version  int         `json:"version"`
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
		out := jsonElection{Time: now.UTC(), Resource: string(c.Name), Version: jsonVersion}
		if l.Token != 0 {
			out.Leader = &jsonLeader{l.Value, l.HolderID, l.Token, l.Since.UTC()}
		}
		return writeJSON(e.stdout, out)
	}
	if l.Token == 0 {
		_, err := fmt.Fprintf(e.stdout, "%s  %q has no leader\n", since(now), c.Name)
		return err
	}
	_, err := fmt.Fprintf(e.stdout, "%s  %s leads %q since %s, token %d, holder ID %s\n",
		since(now), cell(l.Value), c.Name, since(l.Since), l.Token, cell(l.HolderID))
	return err
}
