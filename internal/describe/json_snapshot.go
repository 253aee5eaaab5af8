package describe

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// JSONVersion is that of all JSON: a field may be added to it, but none changes
// its meaning.
const JSONVersion = 1

// JSONSnapshot is the JSON of a resource.
type JSONSnapshot struct {
	Resource string      `json:"resource"`
	Kind     string      `json:"kind,omitempty"`
	Capacity int         `json:"capacity,omitempty"`
	Token    uint64      `json:"token,omitempty"`     // highest fencing token so far
	Marked   float64     `json:"marked_ms,omitempty"` // time until the mark ends
	MarkedBy *JSONParty  `json:"marked_by,omitempty"` // the lease that set the mark, if it is recorded; no TTL
	Holders  []JSONParty `json:"holders"`
	Waiters  []JSONParty `json:"waiters"` // null: not known, as on a quorum
	Dead     []JSONParty `json:"dead,omitempty"`
	Version  int         `json:"version"`
}

// JSONParty is the JSON of a holder or a waiter, dead or alive; only holders have a token and
// a TTL.
type JSONParty struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	Host     string    `json:"host,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Weight   int       `json:"weight"`
	Mode     string    `json:"mode,omitempty"` // reader or writer; of a latch its count, or wait
	Since    time.Time `json:"since"`
	Token    uint64    `json:"token,omitempty"`
	TTL      float64   `json:"ttl_ms,omitempty"`
	Silent   float64   `json:"silent_ms,omitempty"` // of a dead waiter: since its latest poll
	Breaking bool      `json:"breaking,omitempty"`
	Lingers  bool      `json:"lingers,omitempty"` // it may be kept although nobody uses it
}

// ToJSON converts a snapshot.
func ToJSON(s holdfast.Snapshot) JSONSnapshot {
	out := JSONSnapshot{
		Resource: s.Resource, Kind: s.Kind, Capacity: s.Capacity, Token: s.Token,
		Marked:  Milliseconds(s.Marked),
		Holders: []JSONParty{}, Waiters: []JSONParty{}, Version: JSONVersion,
	}
	if s.MarkedBy.ID != "" {
		by := jsonHolder(s, s.MarkedBy)
		out.MarkedBy = &by
	}
	for _, h := range s.Holders {
		out.Holders = append(out.Holders, jsonHolder(s, h))
	}
	if s.NoWaiters {
		out.Waiters = nil
	}
	for _, w := range s.Waiters {
		out.Waiters = append(out.Waiters, jsonWaiter(s, w))
	}
	for _, w := range s.Dead {
		out.Dead = append(out.Dead, jsonWaiter(s, w))
	}
	return out
}

func jsonWaiter(s holdfast.Snapshot, w holdfast.Waiter) JSONParty {
	return JSONParty{
		ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Reason: w.Reason, Weight: w.Weight, Mode: Mode(s, w.Weight),
		Since: w.Since.UTC(), Silent: Milliseconds(w.Silent),
	}
}

func jsonHolder(s holdfast.Snapshot, h holdfast.Holder) JSONParty {
	return JSONParty{
		ID: h.ID, Name: h.Name, Host: h.Host, PID: h.PID, Reason: h.Reason, Weight: h.Weight, Mode: Mode(s, h.Weight),
		Since: h.Since.UTC(), Token: h.Token, TTL: Milliseconds(h.TTL), Breaking: h.Breaking, Lingers: h.Lingers,
	}
}
