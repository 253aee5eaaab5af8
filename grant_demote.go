package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
)

// errNotWriter is the error of a demotion of anything but the writer of an RWMutex.
var errNotWriter = fmt.Errorf("%w as the writer of an RWMutex", ErrNotHeld)

// demotable returns why a lease cannot be demoted, or nil.
func demotable(leases leaseSet, l *Lease, writer bool) error {
	switch {
	case !leases.has(l):
		return fmt.Errorf("%w any more", ErrNotHeld)
	case !writer:
		return errNotWriter
	case len(leases) > 1:
		return fmt.Errorf("%w by this lease alone: release the re-entrant ones first", ErrNotHeld)
	}
	return nil
}

// demote implements grant. From here on no caller re-enters the lease as a writer, even if
// the call to the store fails.
func (h *storeGrant) demote(ctx context.Context, l *Lease) error {
	c := h.client()
	if h.acquirer.kind != engine.KindRW {
		return errNotWriter
	}
	if !c.gate.Enter() {
		return ErrClosed
	}
	defer c.gate.Leave()
	if err := l.Err(); err != nil {
		return err
	}
	if err := h.beReader(l); err != nil {
		return err
	}
	call, cancel := until(ctx, c.life)
	defer cancel()
	r := h.Renewal()
	err := retry(call, fewRetries, func() error { return c.engine.Resize(call, r.Resource, r.Held, 1) })
	if gone, ok := errors.AsType[*engine.NotHeldError](err); ok {
		h.lose(h.gone(gone))
	}
	return err
}

// beReader lowers the weight of the grant in this client.
func (h *storeGrant) beReader(l *Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := demotable(h.leases, l, h.weight == rwCapacity || h.demoted); err != nil {
		return err
	}
	h.weight, h.demoted = 1, true
	h.local.Load().demote(1)
	return nil
}
