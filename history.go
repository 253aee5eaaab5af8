package holdfast

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// DefaultHistory is how many events WithHistory keeps by default.
	DefaultHistory = 10_000
	maxHistory     = 10_000_000

	historyPage = 500                    // events of one read
	historyPoll = 500 * time.Millisecond // between reads that follow a history
)

// WithHistory makes the client record in the store which of its leases were granted,
// released and lost, which waits ended without a grant, and what it broke.
// [Client.History] reads what the clients of a prefix recorded. The store keeps about
// the last keep events of the prefix, at some 200 bytes each (default [DefaultHistory]
// for 0, at most 10 million), and may drop all of them if none was recorded for 7 days,
// and each one after 30 days. PostgreSQL, MySQL, SQLite, etcd and ZooKeeper keep the
// latest 20,000 documents, each with up to 100 events that a client wrote at one time.
//
// Events are written in the background, some 200 ms later and many in one request, so
// no lock waits for them. If the store is unavailable, the client keeps up to 10,000
// events to be written later, and then counts those that it drops; see
// [HistoryDropped]. Close writes what is left, for a second at most. Events
// that a killed process has not written are missing. [New] returns ErrInvalid if the engine
// is not an engine.HistoryKeeper.
func WithHistory(keep int) Option {
	return func(o *clientOptions) {
		if keep < 0 || keep > maxHistory {
			o.fail(optionError("history of %d events: use 1 to %d, or 0 for %d", keep, maxHistory, DefaultHistory))
		}
		if o.history = keep; keep == 0 {
			o.history = DefaultHistory
		}
	}
}

// A HistoryKind is what a HistoryEvent reports.
type HistoryKind string

const (
	// HistoryGranted: a lease was granted, and was held for longer than it takes to
	// write the event. A lease that was held for less has only the event of its end.
	HistoryGranted HistoryKind = "granted"
	// HistoryReleased: a lease was released or handed off.
	HistoryReleased HistoryKind = "released"
	// HistoryDetached: a lease was detached: it is still held, by its ticket. The client that
	// adopts it records HistoryGranted with the Cause "adopted".
	HistoryDetached HistoryKind = "detached"
	// HistoryLost: a lease was lost; Cause is why.
	HistoryLost HistoryKind = "lost"
	// HistoryWithdrawn: a wait of Lock ended without a lease; Cause is why. Attempts of
	// TryLock are not recorded.
	HistoryWithdrawn HistoryKind = "withdrawn"
	// HistoryBroke: this client broke a lease or a wait, or removed a mark; Cause is what.
	HistoryBroke HistoryKind = "broke"
	// HistoryDropped: a client dropped Count events that it could not write.
	HistoryDropped HistoryKind = "dropped"
)

// A HistoryEvent is what one client recorded. Fields that do not apply are zero.
type HistoryEvent struct {
	Event    HistoryKind
	At       time.Time // on the store's clock, to a few milliseconds; on SQLite, etcd and ZooKeeper the writer's
	Resource string
	Kind     string // of the lock
	Weight   int
	Token    uint64
	Client   Meta          // where the client ran
	Name     string        // of the client; see WithName
	Waited   time.Duration // for the grant, or until the wait ended without one
	Held     time.Duration // of HistoryReleased, HistoryDetached and HistoryLost: the lease was granted, or adopted, at At minus Held, and earlier if the machine was suspended meanwhile
	Cause    string
	Count    int
}

// A HistoryQuery selects events of a history.
type HistoryQuery struct {
	Pattern string    // of resource names, as for List; "" means all events
	Since   time.Time // on the store's clock; the zero time means from the oldest event
	Follow  bool      // go on with new events until ctx ends
	Newest  bool      // newest first; not with Follow
}

// History yields what the clients of this prefix recorded in the store, oldest first, by
// the time at which it was written: events of the last 200 ms of different clients may
// be out of order. With Newest it yields them newest first, so that a reader of the latest
// events can stop early. See [WithHistory], which a client that only reads does not need. It
// ends with the first error: ErrUnavailable, ErrDenied, ErrClosed, ErrInvalid if
// the engine is not an engine.HistoryKeeper, or both Follow and Newest are set.
func (c *Client) History(ctx context.Context, q HistoryQuery) iter.Seq2[HistoryEvent, error] {
	return func(yield func(HistoryEvent, error) bool) {
		if err := c.history(ctx, q, func(e HistoryEvent) bool { return yield(e, nil) }); err != nil {
			yield(HistoryEvent{}, opError("history", q.Pattern, err))
		}
	}
}

func (c *Client) history(ctx context.Context, q HistoryQuery, yield func(HistoryEvent) bool) error {
	keeper, ok := engine.KeepsHistory(c.engine)
	if !ok {
		return errNoHistory
	}
	if q.Follow && q.Newest {
		return fmt.Errorf("%w: a history cannot be followed with the newest events first", ErrInvalid)
	}
	if !c.gate.Enter() {
		return ErrClosed
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	seen := make(seenEvents)
	for position := ""; ; {
		page, err := q.read(call, keeper, c.prefix, position)
		if err != nil {
			if q.Follow && ctx.Err() != nil {
				return nil
			}
			return c.cutShort(ctx, err)
		}
		var events []HistoryEvent
		for _, r := range page {
			position = r.Position
			var w historyText
			if json.Unmarshal(r.Event, &w) != nil || !seen.add(w.ID) {
				continue // not ours, or written twice since the reply to the first request was lost
			}
			e := w.event(r.Written)
			if (q.Pattern == "" || engine.Match(q.Pattern, e.Resource)) && !e.At.Before(q.Since) {
				events = append(events, e)
			}
		}
		slices.SortStableFunc(events, q.order)
		for _, e := range events {
			if !yield(e) {
				return nil
			}
		}
		switch {
		case q.Newest && len(page) > 0 && page[len(page)-1].Written.Before(q.Since):
			return nil // what is further back took place before, too
		case len(page) == historyPage:
		case !q.Follow:
			return nil
		default:
			c.sleep(ctx, historyPoll)
		}
		switch {
		case c.life.Err() != nil: // call does not end with the client if ctx never ends
			return ErrClosed
		case q.Follow && ctx.Err() != nil:
			return nil
		}
	}
}

// read reads the next page of a history.
func (q HistoryQuery) read(ctx context.Context, keeper engine.HistoryKeeper, prefix, position string) ([]engine.HistoryRecord, error) {
	if q.Newest {
		return keeper.HistoryBefore(ctx, prefix, position, historyPage)
	}
	return keeper.History(ctx, prefix, position, q.Since, historyPage)
}

// order is the order of the events of a page.
func (q HistoryQuery) order(a, b HistoryEvent) int {
	if q.Newest {
		return b.At.Compare(a.At)
	}
	return a.At.Compare(b.At)
}

var errNoHistory = fmt.Errorf("%w: the engine keeps no history", ErrInvalid)

// historyText is an event in the store. Times are in microseconds; Ago is how long before
// it was written the event was, so that it is timed by the store's clock.
type historyText struct {
	Event    HistoryKind `json:"event"`
	Resource string      `json:"resource,omitempty"`
	Kind     string      `json:"kind,omitempty"`
	Weight   int         `json:"weight,omitempty"` // if it is not 1
	Token    uint64      `json:"token,omitempty"`
	Name     string      `json:"name,omitempty"`
	Host     string      `json:"host,omitempty"`
	PID      int         `json:"pid,omitempty"`
	Ago      int64       `json:"ago,omitempty"`
	Waited   int64       `json:"waited,omitempty"`
	Held     int64       `json:"held,omitempty"`
	Cause    string      `json:"cause,omitempty"`
	Count    int         `json:"count,omitempty"`
	ID       string      `json:"id"`
}

func (w historyText) event(written time.Time) HistoryEvent {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	e := HistoryEvent{
		Event: w.Event, At: written.Add(-us(w.Ago)), Resource: w.Resource, Kind: w.Kind, Weight: w.Weight, Token: w.Token,
		Client: Meta{Host: w.Host, PID: w.PID}, Name: w.Name, Waited: us(w.Waited), Held: us(w.Held), Cause: w.Cause, Count: w.Count,
	}
	if e.Resource != "" && e.Weight == 0 {
		e.Weight = 1
	}
	return e
}
