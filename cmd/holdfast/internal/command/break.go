package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// breakCmd is `holdfast break`.
type breakCmd struct {
	Resource text `arg:"" optional:"" help:"Name of the resource."`
	HolderID text `arg:"" optional:"" name:"holder-id" help:"ID of the holder or waiter, from holdfast show."`
	All      text `placeholder:"PATTERN" help:"Break every lease on the resources whose names match, as in holdfast ls. Waits, latches and condition variables are not broken."`
	DryRun   bool `help:"Show what would be broken, and break nothing."`
	Yes      bool `short:"y" help:"Do not ask for confirmation. Without a terminal on standard input there is no question."`
	Force    bool `help:"End a lease at once. Its holder can still write until it detects the break."`
	Reason   text `placeholder:"TEXT" help:"A text for the holder or waiter, which its process shows (256 bytes at most)."`
	JSON     bool `help:"Answer as JSON objects, one for each lease or wait."`
}

// Help is the long text of --help.
func (*breakCmd) Help() string {
	return `Breaks a lease or ends a wait. A broken lease cannot be renewed. Its holder detects the break at once if a wake-up
reaches it, otherwise at its next renewal (a third of its TTL). The next waiter gets the resource when the
holder's process has released it, at the latest when the TTL is over, so there are never two holders.
With --force it gets the resource at once. The holder can still write until it detects the break; only fencing
tokens reject those writes. A latch needs --force, since no process holds it. The lease of a dead holder needs no
break: it expires by itself. The ID identifies one lease, so a late break cannot affect the next holder.
On a terminal the command lists what it will break and asks for confirmation.

Exit codes: 1 if there is nothing to break, or the answer is not y.

Examples:
	holdfast show stock:42
	holdfast break stock:42 kJ4xq0mT.9fQ2
	holdfast break --reason 'deploy at noon' stock:42 kJ4xq0mT.9fQ2
	holdfast break --force --yes stock:42 kJ4xq0mT.9fQ2
	holdfast break --all 'stock:*' --dry-run`
}

// Validate checks what the flags' types cannot.
func (c *breakCmd) Validate() error {
	switch {
	case c.All != "" && c.Resource != "":
		return errors.New("give either RESOURCE and HOLDER_ID or --all PATTERN")
	case c.All == "" && c.HolderID == "":
		return errors.New("expected RESOURCE and HOLDER_ID, or --all PATTERN")
	}
	return nil
}

// target is a lease or a wait to break.
type target struct {
	resource, id string
	words        string // description for the question; empty if there is none
}

// Run breaks the leases or the wait.
func (c *breakCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	asks := !c.Yes && !c.DryRun && isTerminal(os.Stdin)
	targets, err := c.targets(e, s, asks)
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.answerAll(e, targets)
	}
	if asks {
		if err := c.confirm(targets, os.Stdin, e.stderr); err != nil {
			return err
		}
	}
	for _, t := range targets {
		if err := c.breakOne(e, s, t); err != nil {
			return err
		}
	}
	return nil
}

// targets returns what to break. It reads a single target from the store only if a description
// is needed.
func (c *breakCmd) targets(e *env, s *session, asks bool) ([]target, error) {
	if c.All != "" {
		return c.matching(e, s)
	}
	one := target{resource: string(c.Resource), id: string(c.HolderID)}
	if !asks && !c.DryRun {
		return []target{one}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	snap, err := s.Snapshot(ctx, one.resource)
	if err != nil {
		return nil, s.explain(err)
	}
	one.words = partyInWords(snap, one.id)
	switch {
	case one.words != "":
	case one.id == engine.MarkID && snap.Marked > 0:
		one.words = fmt.Sprintf("the mark of %q as done, for another %s", snap.Resource, short(snap.Marked))
	case !asks && !snap.NoWaiters:
		return nil, nothing(e, one)
	default:
		one.words = fmt.Sprintf("the wait or lease %s of %q, which is not shown", cell(one.id), one.resource)
	}
	return []target{one}, nil
}

// matching returns the leases on the resources that match --all.
func (c *breakCmd) matching(e *env, s *session) ([]target, error) {
	ctx := context.Background()
	if _, err := s.now(ctx); err != nil { // fails soon if the store does not answer
		return nil, s.explain(err)
	}
	var all []target
	for snap, err := range s.List(ctx, string(c.All)) {
		if err != nil {
			return nil, s.explain(err)
		}
		switch engine.Kind(snap.Kind) {
		case engine.KindLatch, engine.KindLatchUnits, engine.KindCond:
			continue // a break would end them for all processes, or lose a count of work
		}
		for _, h := range snap.Holders {
			all = append(all, target{snap.Resource, h.ID, leaseInWords(snap, h)})
		}
	}
	if len(all) == 0 {
		return nil, fail(exitNo, "no lease on a resource that matches %q (prefix %q)", c.All, e.prefix)
	}
	return all, nil
}

// partyInWords describes the lease or the wait of an ID; without one it returns "".
func partyInWords(s holdfast.Snapshot, id string) string {
	for _, h := range s.Holders {
		if h.ID == id {
			return leaseInWords(s, h)
		}
	}
	for _, w := range s.Waiters {
		if w.ID == id {
			return fmt.Sprintf("the wait for %q of %s, since %s", s.Resource, cell(where(w.Name, w.Host, w.PID)), since(w.Since))
		}
	}
	return ""
}

func leaseInWords(s holdfast.Snapshot, h holdfast.Holder) string {
	return fmt.Sprintf("the lease on %q (%s) of %s, since %s, token %d", s.Resource, cell(s.Kind), cell(where(h.Name, h.Host, h.PID)), since(h.Since), h.Token)
}

// confirm asks whether to break the targets.
func (c *breakCmd) confirm(targets []target, in io.Reader, out io.Writer) error {
	for _, t := range targets {
		fmt.Fprintf(out, "holdfast: %s\n", t.words)
	}
	what, how := "this", ""
	if len(targets) > 1 {
		what = fmt.Sprintf("these %d", len(targets))
	}
	if c.Force {
		how = " at once, though the holder may still act"
	}
	fmt.Fprintf(out, "holdfast: break %s%s? [y/N] ", what, how)
	answer, _ := bufio.NewReader(in).ReadString('\n') // if it cannot be read, the answer is no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fail(exitNo, "nothing was broken")
}

// breakOne breaks one target. With several targets it is no error if one has ended already.
func (c *breakCmd) breakOne(e *env, s *session, t target) error {
	err := c.end(s, t)
	switch {
	case errors.Is(err, holdfast.ErrNotHeld) && c.All != "":
		return nil
	case errors.Is(err, holdfast.ErrNotHeld):
		return nothing(e, t)
	case err != nil:
		return s.explain(err)
	case c.JSON:
		return writeJSON(e.stdout, map[string]any{"resource": t.resource, "broken": t.id, "version": jsonVersion})
	}
	_, err = fmt.Fprintln(e.stdout, broken(t))
	return err
}

// broken is the answer of a break.
func broken(t target) string {
	if t.id == engine.MarkID {
		return fmt.Sprintf("broken: %q is no longer marked as done", t.resource)
	}
	return fmt.Sprintf("broken: %s can no longer renew %q or wait for it", cell(t.id), t.resource)
}

// end breaks a lease or a wait.
func (c *breakCmd) end(s *session, t target) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var opts []holdfast.BreakOption
	if c.Force {
		opts = append(opts, holdfast.Force())
	}
	if c.Reason != "" {
		opts = append(opts, holdfast.BreakReason(string(c.Reason)))
	}
	return s.Break(ctx, t.resource, t.id, opts...)
}

func nothing(e *env, t target) error {
	return fail(exitNo, "%s neither holds %q nor waits for it (prefix %q); see \"holdfast show %s\" for who does",
		cell(t.id), t.resource, e.prefix, shellWord(text(t.resource)))
}

// answerAll is the answer of --dry-run.
func (c *breakCmd) answerAll(e *env, targets []target) error {
	for _, t := range targets {
		var err error
		if c.JSON {
			err = writeJSON(e.stdout, map[string]any{"resource": t.resource, "would_break": t.id, "version": jsonVersion})
		} else {
			_, err = fmt.Fprintf(e.stdout, "would break: %s, %s\n", cell(t.id), t.words)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isTerminal reports whether the file is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
