package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// renewCmd is `holdfast renew`.
type renewCmd struct {
	Ticket text `arg:"" help:"The ticket that holdfast acquire printed; - reads it from standard input."`
	JSON   bool `help:"Answer as a JSON object."`
}

// Help is the long text of --help.
func (*renewCmd) Help() string {
	return `Renews the lease of a ticket for its whole TTL from now on. The ticket stays the same.

Exit codes: 79 if the lease has ended (expired, broken, released); it cannot be restored.
	 64  no ticket     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	holdfast renew "$ticket" || exit     # stop working: another party may hold it now
	while sleep 20; do holdfast renew "$ticket" || kill $worker; done`
}

// Run renews the lease.
func (c *renewCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	lease, err := s.adopt(c.Ticket)
	if err != nil {
		return s.explainLease(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	name, left := lease.Resource(), time.Until(lease.Deadline())
	if _, err := lease.Detach(ctx); err != nil {
		return s.explainLease(err)
	}
	if c.JSON {
		return writeJSON(e.stdout, jsonLease(lease, left))
	}
	_, err = fmt.Fprintf(e.stdout, "renewed: %q is held for %s, token %d\n", name, short(left), lease.Token())
	return err
}

// adopt takes the lease of a ticket over.
func (s *session) adopt(ticket text) (*holdfast.Lease, error) {
	if ticket == "-" {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		if line == "" && err != nil {
			return nil, fail(exitUsage, "standard input has no ticket: %v", err)
		}
		ticket = text(line)
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	lease, err := s.Adopt(ctx, strings.TrimSpace(string(ticket)))
	if errors.Is(err, holdfast.ErrInvalid) {
		return nil, fail(exitUsage, "this is not a ticket: give the whole text that holdfast acquire printed")
	}
	return lease, err
}

// explainLease is explain for a verb whose lease may be lost.
func (s *session) explainLease(err error) error {
	if errors.Is(err, holdfast.ErrLost) {
		return fail(exitLost, "%s", bare(err))
	}
	return s.explain(err)
}
