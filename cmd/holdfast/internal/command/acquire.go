package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

// acquireCmd is `holdfast acquire`.
type acquireCmd struct {
	Resource text `arg:"" help:"Name of the resource to lock, such as stock:42."`

	lockFlags
	TTL              span `name:"ttl" default:"1m" placeholder:"D" help:"TTL of the lease, 100ms to 24h; holdfast renew extends it. Default: ${default}."`
	ConflictExitCode int  `short:"E" default:"75" placeholder:"N" help:"Exit code when the lease is not acquired. Default: ${default}."`
	Quiet            bool `short:"q" help:"Print only the ticket."`
	JSON             bool `help:"Print a JSON object with ticket, resource, token, holder and TTL; on standard error events and errors are objects."`
	logFlag
}

// Help is the long text of --help.
func (*acquireCmd) Help() string {
	return `Acquires the lease of a resource, prints a ticket for it and exits. The lease is not renewed: it lasts for --ttl,
and again for --ttl after every holdfast renew TICKET. holdfast release TICKET releases it. The ticket is the right
to the lease, so keep it secret; only one party at a time may use it.

For a script that does one thing, use holdfast run, which renews the lease and ends the command in time if it is
lost. Send the fencing token (--json) with every write.

Exit codes:
	 75  not acquired: held and -n, or -w ran out   (-E N: N instead)     128+N  signal N ended the wait
	 64  usage     69  store unreachable     77  store refuses user or rights     78  bad configuration

Examples:
	ticket=$(holdfast acquire -w 30s --ttl 5m deploy:prod)
	holdfast renew "$ticket"
	holdfast release "$ticket"
	holdfast acquire --json stock:42 | jq -r .token`
}

// Validate checks what the flags' types cannot.
func (c *acquireCmd) Validate() error {
	flags := guardFlags{ConflictExitCode: c.ConflictExitCode}
	return errors.Join(c.checkSlots(), flags.check(c.Wait))
}

// Run acquires the lease and prints its ticket.
func (c *acquireCmd) Run(e *env) error {
	g := &guarded{verb: "acquire", Resource: c.Resource, Nonblock: c.Nonblock, Wait: c.Wait, weight: c.weight(), shared: c.Shared}
	g.TTL, g.ConflictExitCode, g.Quiet, g.JSON = c.TTL, c.ConflictExitCode, c.Quiet, c.JSON
	g.logFlag = c.logFlag
	say, err := openReporter(e.stderr, g)
	if err != nil {
		return err
	}
	defer say.close()
	// The holder in the store is the calling process, since this one is about to end.
	s, err := e.open(holdfast.WithName("holdfast acquire"), holdfast.WithMeta(callerMeta()))
	if err != nil {
		return err
	}
	defer s.close()
	sigs, stop := catchSignals()
	defer stop()
	g.lock = c.lockFlags.on(s, []string{string(c.Resource)}, time.Duration(c.TTL))
	lease, err := g.acquire(s, sigs, say, g.firstTry)
	if err != nil {
		return g.refused(say, "not-acquired", s, err)
	}
	return c.hand(e, s, lease)
}

// hand detaches the lease and prints its ticket. If either fails, it releases the lease.
func (c *acquireCmd) hand(e *env, s *session, lease *holdfast.Lease) error {
	out := jsonLease(lease, time.Duration(c.TTL))
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	ticket, err := lease.Detach(ctx)
	if err != nil {
		return s.explain(err)
	}
	if c.JSON {
		out.Ticket = ticket
		err = writeJSON(e.stdout, out)
	} else {
		_, err = fmt.Fprintln(e.stdout, ticket)
	}
	if err == nil {
		return nil
	}
	if lease, failure := s.Adopt(ctx, ticket); failure == nil {
		_ = lease.Release(ctx) // if this fails too, the lease ends by its TTL
	}
	return fail(exitFailed, "the ticket cannot be printed, so the lease was released: %v", err)
}

// jsonTicket is what --json prints.
type jsonTicket struct {
	Ticket   string `json:"ticket,omitempty"`
	Resource string `json:"resource"`
	Token    uint64 `json:"token"`
	Holder   string `json:"holder"`
	TTL      int64  `json:"ttl_ms"`
	Version  int    `json:"version"`
}

// jsonLease returns what --json prints of a held lease.
func jsonLease(lease *holdfast.Lease, ttl time.Duration) jsonTicket {
	return jsonTicket{Resource: lease.Resource(), Token: lease.Token(), Holder: lease.HolderID(), TTL: ttl.Milliseconds(), Version: jsonVersion}
}

// callerMeta returns the host and the PID of the process that started this one.
func callerMeta() holdfast.Meta {
	host, _ := os.Hostname() // an empty host is shown as such
	return holdfast.Meta{Host: host, PID: os.Getppid()}
}
