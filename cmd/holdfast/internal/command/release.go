package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// releaseCmd is `holdfast release`.
type releaseCmd struct {
	Ticket text `arg:"" help:"The ticket that holdfast acquire printed; - reads it from standard input."`
	JSON   bool `help:"Answer as a JSON object."`
}

// Help is the long text of --help.
func (*releaseCmd) Help() string {
	return `Releases the lease of a ticket; the next waiter gets the resource at once. To release it twice is no error:
the answer says "released before".

Exit codes: 79 if the lease had ended before (expired, broken): another party may have held the resource since.
	 64  no ticket     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	ticket=$(holdfast acquire deploy:prod); trap 'holdfast release "$ticket"' EXIT`
}

// Run releases the lease.
func (c *releaseCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	lease, err := s.adopt(c.Ticket)
	if lost, ok := errors.AsType[*holdfast.LostError](err); ok && lost.Cause == holdfast.LostElsewhere {
		return c.answer(e, lost.Resource, releasedBefore)
	}
	if err != nil {
		return s.explainLease(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		return s.explainLease(err)
	}
	return c.answer(e, lease.Resource(), "released")
}

const releasedBefore = "released before"

// jsonReleased is what --json prints.
type jsonReleased struct {
	Resource string `json:"resource"`
	Released bool   `json:"released"`
	Before   bool   `json:"before,omitempty"` // by an earlier call
	Version  int    `json:"version"`
}

func (c *releaseCmd) answer(e *env, name, how string) error {
	if c.JSON {
		return writeJSON(e.stdout, jsonReleased{name, true, how == releasedBefore, jsonVersion})
	}
	_, err := fmt.Fprintf(e.stdout, "%s: %q\n", how, name)
	return err
}
