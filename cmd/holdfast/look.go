package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast"
)

// jsonSnapshot is a resource as ls and show print it with --json.
type jsonSnapshot struct {
	Resource string      `json:"resource"`
	Kind     string      `json:"kind,omitempty"`
	Capacity int         `json:"capacity,omitempty"`
	Token    uint64      `json:"token,omitempty"` // highest fencing token so far
	Holders  []jsonParty `json:"holders"`
	Waiters  []jsonParty `json:"waiters"`
}

// jsonParty is a holder or a waiter; only holders have a token and a TTL.
type jsonParty struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	Host   string    `json:"host,omitempty"`
	PID    int       `json:"pid,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Weight int       `json:"weight"`
	Since  time.Time `json:"since"`
	Token  uint64    `json:"token,omitempty"`
	TTL    float64   `json:"ttl_ms,omitempty"`
}

func toJSON(s holdfast.Snapshot) jsonSnapshot {
	out := jsonSnapshot{
		Resource: s.Resource, Kind: s.Kind, Capacity: s.Capacity, Token: s.Token,
		Holders: []jsonParty{}, Waiters: []jsonParty{},
	}
	for _, h := range s.Holders {
		out.Holders = append(out.Holders, jsonParty{
			ID: h.ID, Name: h.Name, Host: h.Host, PID: h.PID, Reason: h.Reason, Weight: h.Weight,
			Since: h.Since.UTC(), Token: h.Token, TTL: float64(h.TTL.Microseconds()) / 1000,
		})
	}
	for _, w := range s.Waiters {
		out.Waiters = append(out.Waiters, jsonParty{
			ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Reason: w.Reason, Weight: w.Weight, Since: w.Since.UTC(),
		})
	}
	return out
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table lines up columns; the caller writes tab-separated rows and flushes.
func table(w io.Writer, header string) *tabwriter.Writer {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, header)
	return t
}

// where words a party's process for a table.
func where(name, host string, pid int) string {
	return fmt.Sprintf("%s, pid %d on %s", orNone(name), pid, orNone(host))
}

// since words a moment by the store's clock for a table, in local time.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// cell makes free text fit a cell: no tabs, line ends or terminal controls, and
// no empty cell.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	out := []rune(text)
	for i, r := range out {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			out[i] = '?'
		}
	}
	return string(out)
}
