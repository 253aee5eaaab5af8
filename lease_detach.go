package holdfast

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// ticketMark begins every ticket and contains the version of the format.
const ticketMark = "holdfast1."

// A ticket is a lease in transit from one client to another.
type ticket struct {
	Prefix   string `json:"p"`
	Name     string `json:"n"`
	Kind     string `json:"k"`
	Capacity int    `json:"c"`
	Weight   int    `json:"w"`
	ID       string `json:"i"`
	Token    uint64 `json:"t"`
	TTL      int64  `json:"ms"`
	Renewal  string `json:"r,omitempty"` // "no": it is not renewed
	Unsure   bool   `json:"u,omitempty"` // copies of its acquire may be in transit
}

// detach implements grant.
func (h *storeGrant) detach(ctx context.Context, l *Lease) (string, error) {
	if !h.client().gate.Enter() {
		return "", opError("detach", h.acquirer.name, ErrClosed)
	}
	defer h.client().gate.Leave()
	if err := h.detachAlone(); err != nil {
		return "", opError("detach", h.acquirer.name, err)
	}
	defer h.detachEnded()
	call, cancel := context.WithTimeout(ctx, min(max(releaseGrace, h.entry.TTL/3), closeGrace))
	defer cancel()
	err := h.client().engine.Renew(call, []engine.Renewal{h.Renewal()})[0]
	if gone, ok := errors.AsType[*engine.NotHeldError](err); ok {
		h.lose(h.gone(gone))
		return "", l.Err()
	}
	if err != nil && !h.acquirer.opts.noRenewal {
		return "", opError("detach", h.acquirer.name, err)
	}
	if !h.removeOnly(l) {
		if why := h.endError(); errors.Is(why, ErrLost) && errors.Is(l.end(why), ErrLost) {
			return "", why
		}
		return "", opError("detach", h.acquirer.name, fmt.Errorf("%w by this lease alone any more", ErrNotHeld))
	}
	_ = l.end(ErrReleased)
	_, was := h.end(nil)
	h.releaseLocal()
	h.client().handOff(h.line, localTurn{})
	if was == grantEnded {
		return "", opError("detach", h.acquirer.name, h.endError()) // it ended at this moment
	}
	h.reportDetach(l)
	return h.ticket(), nil
}

// reportDetach reports to hooks that a lease was detached. If one panics, nobody gets the
// ticket, and the lease is released.
func (h *storeGrant) reportDetach(l *Lease) {
	returned := false
	defer func() {
		if !returned {
			h.client().queueRelease(h.entry.TTL, h.releaseRequest())
		}
	}()
	h.endJeopardy(ErrReleased)
	h.reportRelease(l, HandOffTicket)
	returned = true
}

// detachAlone keeps others from joining a grant until detachEnded. It returns an error if it backs more than one lease.
func (h *storeGrant) detachAlone() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.shared != nil && len(h.leases)+h.shared.seats != 1:
		return fmt.Errorf("%w by this lease alone: other readers of this process share it, unless WithoutTenure is set", ErrNotHeld)
	case len(h.leases) != 1:
		return fmt.Errorf("%w by this lease alone: release the re-entrant ones first", ErrNotHeld)
	}
	if h.shared != nil {
		h.shared.detaching++
	}
	return nil
}

// detachEnded lets others join again, unless the grant was detached.
func (h *storeGrant) detachEnded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shared != nil {
		h.shared.detaching--
	}
}

func (h *storeGrant) single() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.leases) == 1
}

// removeOnly removes a lease if the grant backs no other.
func (h *storeGrant) removeOnly(l *Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != grantHeld || len(h.leases) != 1 || h.leases[0] != l || h.shared != nil && h.shared.seats > 0 {
		return false
	}
	h.leases, h.state = nil, grantPassing
	return true
}

func (h *storeGrant) ticket() string {
	r := h.Renewal()
	t := ticket{
		Prefix: r.Resource.Prefix, Name: r.Resource.Name,
		Kind: string(h.acquirer.kind), Capacity: h.acquirer.capacity, Weight: int(h.weight),
		ID: r.ID, Token: h.token, TTL: r.TTL.Milliseconds(), Unsure: h.unsure,
	}
	if h.acquirer.opts.noRenewal {
		t.Renewal = "no"
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic("holdfast: ticket: " + err.Error()) // strings and numbers always marshal
	}
	return ticketMark + base64.RawURLEncoding.EncodeToString(b)
}

// Adopt takes over a lease with the ticket that [Lease.Detach] returned, and
// renews it from now on. The lease keeps its holder ID and its token. Use a
// ticket once: two clients that adopt it both hold the same lease. Wake-ups for
// the lease go to the client that acquired it first, so this client detects a
// break only at its next renewal. Errors: ErrLost if the lease has ended;
// ErrInvalid if text is not a ticket, or if this client has adopted it and holds
// the lease; ErrUnavailable, ErrDenied, ErrClosed.
func (c *Client) Adopt(ctx context.Context, text string) (*Lease, error) {
	t, err := parseTicket(text)
	if err != nil {
		return nil, err
	}
	if !c.gate.Enter() {
		return nil, opError("adopt", t.Name, ErrClosed)
	}
	defer c.gate.Leave()
	start := time.Now()
	for _, hook := range c.hooks.acquireStart {
		hook.AcquireStart(ctx, AcquireStartEvent{Resource: t.Name, Kind: t.Kind, Weight: t.Weight})
	}
	l, err := c.adopt(ctx, t)
	e := AcquireEndEvent{Resource: t.Name, Kind: t.Kind, Weight: t.Weight, Waited: time.Since(start), Err: err}
	if err == nil {
		e.Source = SourceTicket
	}
	c.recorder.acquireEnded(l, e, false)
	c.acquireEnded(ctx, l, e)
	return l, err
}

// adopt takes over the lease of a ticket.
func (c *Client) adopt(ctx context.Context, t ticket) (*Lease, error) {
	ttl := time.Duration(t.TTL) * time.Millisecond
	lk := lockSpec{
		kind: engine.Kind(t.Kind), capacity: t.Capacity, prefix: t.Prefix,
		opts: lockOptions{ttl: ttl, noRenewal: t.Renewal == "no", noTenure: true},
	}.on(c, t.Name)
	h := &storeGrant{
		acquirer: &lk, held: engine.Held{ID: t.ID, Token: t.Token},
		weight: int32(t.Weight), token: t.Token - 1, unsure: t.Unsure,
	}
	h.entry.TTL, h.entry.Keeper = ttl, h
	call, cancel := until(ctx, c.life)
	defer cancel()
	sent := time.Now()
	err := c.engine.Renew(call, []engine.Renewal{h.Renewal()})[0]
	if gone, ok := errors.AsType[*engine.NotHeldError](err); ok {
		if gone.Cause == engine.CauseBroken {
			c.queueRelease(ttl, h.releaseRequest()) // nobody else can: the store keeps it for its holder
		}
		return nil, &LostError{Resource: t.Name, Token: t.Token, Cause: lostCause(gone.Cause), Reason: gone.Reason}
	}
	if err != nil {
		return nil, opError("adopt", t.Name, c.cutShort(ctx, err))
	}
	h.entry.Window.Start(c.keep.At(sent), ttl, keepalive.Margin(ttl))
	if h.left() <= 0 {
		return nil, opError("adopt", t.Name, fmt.Errorf("%w: the answer came after its trust window", ErrUnavailable))
	}
	first := keepalive.Usual
	if lk.opts.noRenewal {
		first = keepalive.Never
	}
	if !h.begin(first) {
		if other := c.wakeups.grant(t.ID); other == nil || !other.open() { // its trust window closed while this process was paused
			return nil, h.expired(nil)
		}
		return nil, opError("adopt", t.Name, fmt.Errorf("%w: this client has adopted the lease already", ErrInvalid))
	}
	l := h.take(ctx)
	if l == nil {
		return nil, opError("adopt", t.Name, h.endError()) // it ended at this moment
	}
	return l, nil
}

func parseTicket(text string) (ticket, error) {
	var t ticket
	body, ok := strings.CutPrefix(text, ticketMark)
	if !ok {
		return t, optionError("not a ticket: it does not begin with %q; use the text that Detach returned", ticketMark)
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil || checkName(t.Name) != nil || t.ID == "" || t.Prefix == "" || t.TTL < MinTTL.Milliseconds() || t.TTL > MaxTTL.Milliseconds() ||
		t.Weight < 1 || t.Weight > t.Capacity || t.Capacity > MaxCapacity {
		return t, optionError("the ticket is damaged: use the text that Detach returned, unchanged")
	}
	return t, nil
}
