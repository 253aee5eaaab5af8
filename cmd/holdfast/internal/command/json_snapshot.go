package command

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// jsonSnapshot is a resource as ls and show print it with --json.
type jsonSnapshot struct {
	Resource string      `json:"resource"`
	Kind     string      `json:"kind,omitempty"`
	Capacity int         `json:"capacity,omitempty"`
	Token    uint64      `json:"token,omitempty"`     // highest fencing token so far
	Marked   float64     `json:"marked_ms,omitempty"` // time until the mark ends
	MarkedBy *jsonParty  `json:"marked_by,omitempty"` // the lease that set the mark, if it is recorded; no TTL
	Holders  []jsonParty `json:"holders"`
	Waiters  []jsonParty `json:"waiters"` // null: not known, as on a quorum
	Version  int         `json:"version"`
}

// jsonParty is a holder or a waiter; only holders have a token and a TTL.
type jsonParty struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	Host   string    `json:"host,omitempty"`
	PID    int       `json:"pid,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Weight int       `json:"weight"`
	Mode   string    `json:"mode,omitempty"` // reader or writer; of a latch its count, or wait
	Since  time.Time `json:"since"`
	Token  uint64    `json:"token,omitempty"`
	TTL    float64   `json:"ttl_ms,omitempty"`
}

func toJSON(s holdfast.Snapshot) jsonSnapshot {
	out := jsonSnapshot{
		Resource: s.Resource, Kind: s.Kind, Capacity: s.Capacity, Token: s.Token,
		Marked:  milliseconds(s.Marked),
		Holders: []jsonParty{}, Waiters: []jsonParty{}, Version: jsonVersion,
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
		out.Waiters = append(out.Waiters, jsonParty{
			ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Reason: w.Reason, Weight: w.Weight, Mode: mode(s, w.Weight), Since: w.Since.UTC(),
		})
	}
	return out
}

func jsonHolder(s holdfast.Snapshot, h holdfast.Holder) jsonParty {
	return jsonParty{
		ID: h.ID, Name: h.Name, Host: h.Host, PID: h.PID, Reason: h.Reason, Weight: h.Weight, Mode: mode(s, h.Weight),
		Since: h.Since.UTC(), Token: h.Token, TTL: milliseconds(h.TTL),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// mode returns the meaning of a party's weight: "reader" or "writer" for a readers' and
// writers' lock, where a writer needs the whole capacity; "count 3" for the party that set
// a latch, and "wait" for its waiters; otherwise "".
func mode(s holdfast.Snapshot, weight int) string {
	switch {
	case s.Kind == string(engine.KindLatch) && weight == s.Capacity:
		return "wait"
	case s.Kind == string(engine.KindLatch):
		return fmt.Sprintf("count %d", weight-holdfast.MaxCount)
	case s.Kind != string(engine.KindRW):
		return ""
	case weight == s.Capacity:
		return "writer"
	}
	return "reader"
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
