package command

import (
	"context"
	"errors"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/holdfast-go/holdfast"
)

// topCmd is `holdfast top`.
type topCmd struct {
	selection
	Sort   string `enum:"name,held,waiters,ttl" default:"waiters" placeholder:"BY" help:"Order at first: name, held (longest first), waiters (most first) or ttl (shortest first). Default: ${default}."`
	Every  span   `default:"2s" placeholder:"D" help:"Time between two readings. Default: ${default}."`
	Reason text   `placeholder:"TEXT" help:"A text for those whose lease or wait is broken, which the question offers (256 bytes at most)."`
}

// Help is the long text of --help.
func (*topCmd) Help() string {
	return `Shows the resources in use on the terminal and follows them. If standard output is not a terminal, or TERM is
dumb, it prints once what "holdfast ls" prints.

Keys of the list: up and down (or k and j) choose a resource, Enter opens it, / filters by text, s changes the
order, left and right scroll long lines. Keys of a resource: up and down choose a holder or a waiter, b breaks its
lease or wait as "holdfast break" does, after a reason and y, Esc goes back. q ends, also ^C; ^Z suspends. A
forced break is only for "holdfast break --force".

A reading that takes long makes the pause after it four times as long. While the store does not answer, the last
reading stays on the screen, with its time. With --history or HOLDFAST_HISTORY breaks are recorded; see holdfast log.

Examples:
	holdfast top
	holdfast top 'stock:*' --sort held --every 5s
	holdfast top --host "$(hostname)" | cat`
}

// Run follows the resources until a key or a signal.
func (c *topCmd) Run(e *env) error {
	return e.with(func(ctx context.Context, s *session) error { return c.follow(ctx, e, s) }, holdfast.WithName("holdfast top"))
}

func (c *topCmd) follow(ctx context.Context, e *env, s *session) error {
	out, ok := e.stdout.(*os.File)
	if !ok || !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return c.print(ctx, e, s)
	}
	m := newTop(ctx, e, s, c)
	if _, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithOutput(out)).Run(); err != nil {
		return fail(exitFailed, "the terminal cannot be used: %v; use holdfast ls --watch", err)
	}
	return m.ended
}

// print prints the resources once, as ls does.
func (c *topCmd) print(ctx context.Context, e *env, s *session) error {
	all, err := c.read(ctx, s)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return c.none(e)
	}
	sortBy(c.Sort, all)
	return printResources(e.stdout, all)
}

// read returns the selected resources, in no order.
func (c *topCmd) read(ctx context.Context, s *session) ([]holdfast.Snapshot, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	var all []holdfast.Snapshot
	for snap, err := range c.inUse(ctx, s, now) {
		if err != nil {
			return nil, err
		}
		all = append(all, snap)
	}
	return all, nil
}

// Validate checks what the flags' types cannot.
func (c *topCmd) Validate() error {
	if time.Duration(c.Every) < 100*time.Millisecond {
		return errors.New("--every: use at least 100ms")
	}
	return nil
}
