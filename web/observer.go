package web

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// trendStep and trendSteps say how far back the number of waiters is compared.
	trendStep  = 10 * time.Second
	trendSteps = 6
	// maxChanges is how many changes of a resource are kept.
	maxChanges = 50
	// forgetAfter is how long a resource that is free is remembered.
	forgetAfter = 10 * time.Minute
	// forgetEvery is the least time from one search for them to the next.
	forgetEvery = 10 * time.Second
	// maxIdle bounds what is remembered when a resource is looked at that is free, as any name is.
	maxIdle = 10_000
)

// observer remembers what one snapshot of a resource does not show: how long its
// leases are, whether its queue grows, and what has changed. It knows only what it
// has seen: short turns between two readings are missed.
type observer struct {
	mu       sync.Mutex
	all      map[string]*seenResource
	searched time.Time // for what to forget
}

// seenResource is what is known of a resource.
type seenResource struct {
	parties []party
	byID    map[string]*party // of parties
	trend   []sample
	changes []change // latest last
	seen    time.Time
}

// party is a holder or a waiter of the latest snapshot.
type party struct {
	id, who string
	token   uint64        // 0: it waits
	ttl     time.Duration // highest seen; 0: it waits
	left    time.Duration // in the latest snapshot
	since   time.Time
}

// sample is a number of waiters at a time.
type sample struct {
	at time.Time
	n  int
}

// change is something that happened to a resource between two readings.
type change struct {
	At   time.Time `json:"at"` // by the store's clock, when it was seen
	What string    `json:"what"`
	ID   string    `json:"id"`
	Who  string    `json:"who"`
	// Token is that of the lease; 0: the party waits.
	Token uint64 `json:"token,omitempty"`
	// After is how long the party had held or waited.
	After time.Duration `json:"-"`
}

// sight is what an observer adds to a snapshot.
type sight struct {
	growth  int           // of the queue
	span    time.Duration // in which it grew
	longest map[string]time.Duration
	changes []change // latest first
}

// see takes in a snapshot that was read at a time of the store's clock, and returns what
// is known beyond it.
func (o *observer) see(s holdfast.Snapshot, now time.Time) sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[string]*seenResource)
	}
	known := o.all[s.Resource]
	first := known == nil
	if first {
		known = &seenResource{}
		if len(s.Holders)+len(s.Waiters) > 0 || len(o.all) < maxIdle {
			o.all[s.Resource] = known
		}
	}
	latest := parties(s)
	byID := make(map[string]*party, len(latest))
	longest := make(map[string]time.Duration, len(s.Holders))
	for i := range latest {
		p := &latest[i]
		byID[p.id] = p
		if p.ttl == 0 {
			continue
		}
		if old := known.byID[p.id]; old != nil {
			p.ttl = max(p.ttl, old.ttl)
		}
		longest[p.id] = p.ttl
	}
	if !first && !now.Before(known.seen) {
		known.addChanges(latest, byID, now)
	}
	known.parties, known.byID, known.seen = latest, byID, now
	if len(known.trend) == 0 || now.Sub(known.trend[len(known.trend)-1].at) >= trendStep {
		known.trend = append(known.trend, sample{now, len(s.Waiters)})
		known.trend = known.trend[max(0, len(known.trend)-trendSteps):]
	}
	from := known.trend[0]
	out := sight{growth: len(s.Waiters) - from.n, span: now.Sub(from.at), longest: longest, changes: slices.Clone(known.changes)}
	slices.Reverse(out.changes)
	return out
}

// forget removes what was not seen for long.
func (o *observer) forget(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.searched).Abs() < forgetEvery {
		return
	}
	o.searched = now
	for name, known := range o.all {
		if now.Sub(known.seen) > forgetAfter {
			delete(o.all, name)
		}
	}
}

func parties(s holdfast.Snapshot) []party {
	out := make([]party, 0, len(s.Holders)+len(s.Waiters))
	for _, h := range s.Holders {
		out = append(out, party{h.ID, processText(h.Name, h.Host, h.PID), h.Token, max(h.TTL, 1), h.TTL, h.Since})
	}
	for _, w := range s.Waiters {
		out = append(out, party{w.ID, processText(w.Name, w.Host, w.PID), 0, 0, 0, w.Since})
	}
	return out
}

// addChanges adds what has happened up to the latest snapshot: first what ended, then what began.
func (k *seenResource) addChanges(latest []party, byID map[string]*party, now time.Time) {
	add := func(what string, p party, after time.Duration) {
		k.changes = append(k.changes, change{now, what, p.id, p.who, p.token, after})
	}
	for _, p := range k.parties {
		is := byID[p.id]
		switch lasted := now.Sub(p.since); {
		case is != nil && (p.ttl > 0 || is.ttl == 0):
		case is != nil:
			add("granted after a wait", *is, lasted)
		case p.ttl == 0:
			add("no longer waits", p, lasted)
		case overdue(p.left, p.ttl):
			add("ended, with its renewal overdue", p, lasted)
		default:
			add("ended", p, lasted)
		}
	}
	for _, p := range latest {
		switch {
		case k.byID[p.id] != nil:
		case p.ttl == 0:
			add("began to wait", p, 0)
		default:
			add("granted", p, 0)
		}
	}
	k.changes = k.changes[max(0, len(k.changes)-maxChanges):]
}

// overdue reports whether a lease should have been renewed before: it is renewed when a third
// of its TTL is over, so less than half is left only if a renewal failed or the lease is not
// renewed at all.
func overdue(left, longest time.Duration) bool { return left < longest/2 }
