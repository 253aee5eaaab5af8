package holdfast

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// longQueue is how many waiters are ahead of an acquire in a queue that is logged as long.
const longQueue = 100

// leaseLog logs what happens to leases without any fault: each grant, renewal and release at level
// Debug, the terms of elections at Info, and long queues at Warn. A holder ID is logged at Debug only.
type leaseLog struct {
	log   *slog.Logger
	limit *logLimit
	debug bool // the logger had level Debug at New, so that locks without it cost nothing
}

func (g *leaseLog) open(log *slog.Logger, limit *logLimit) {
	g.log, g.limit = log, limit
	g.debug = log.Enabled(context.Background(), slog.LevelDebug)
}

// wants reports whether grants and releases of a kind are logged.
func (g *leaseLog) wants(kind engine.Kind) bool { return g.debug || kind == engine.KindElection }

// acquired logs a grant. A re-entrant lease is none.
func (g *leaseLog) acquired(l *Lease, e AcquireEndEvent) {
	if l == nil || e.Source == SourceContext {
		return
	}
	if e.Kind == string(engine.KindElection) && g.limit.admits(&g.limit.terms) {
		g.log.Info("holdfast: election term began", "resource", e.Resource, "token", l.token, "waited", e.Waited)
	}
	if g.debug {
		g.log.Debug("holdfast: lease granted", "resource", e.Resource, "kind", e.Kind, "token", l.token, "holder", l.HolderID(), "waited", e.Waited)
	}
}

// renewed logs a renewal, successful or not.
func (g *leaseLog) renewed(h *storeGrant, err error) {
	if !g.debug {
		return
	}
	all := []any{"resource", h.acquirer.name, "kind", string(h.acquirer.kind), "token", h.present(), "holder", h.id(), "left", h.left()}
	if err != nil {
		g.log.Debug("holdfast: renewal failed; it is retried", append(all, "err", err)...)
		return
	}
	g.log.Debug("holdfast: lease renewed", all...)
}

// released logs the end of a lease by its holder.
func (g *leaseLog) released(holder string, e ReleaseEvent) {
	if !g.wants(engine.Kind(e.Kind)) {
		return
	}
	rest := []any{"held", e.Held}
	if e.Err != nil {
		rest = append(rest, "err", e.Err)
	}
	if e.Kind == string(engine.KindElection) && g.limit.admits(&g.limit.terms) {
		g.log.Info("holdfast: election term ended", append([]any{"resource", e.Resource, "token", e.Token}, rest...)...)
	}
	if g.debug {
		g.log.Debug("holdfast: lease released", append([]any{"resource", e.Resource, "kind", e.Kind, "token", e.Token, "holder", holder}, rest...)...)
	}
}

// lost logs the end of a term by a loss. The loss of any lease is logged as an error, too.
func (g *leaseLog) lost(kind engine.Kind, why *LostError, held time.Duration) {
	if kind == engine.KindElection && g.limit.admits(&g.limit.terms) {
		g.log.Info("holdfast: election term ended", "resource", why.Resource, "token", why.Token, "held", held, "cause", why.Cause.String())
	}
}

// waits logs that an acquire has joined a long queue.
func (g *leaseLog) waits(lk *acquirer, queue WaitQueue, ahead int) {
	if ahead >= longQueue && g.limit.admits(&g.limit.queues) {
		g.log.Warn("holdfast: long queue", "resource", lk.name, "kind", string(lk.kind), "queue", queue.String(), "ahead", ahead)
	}
}
