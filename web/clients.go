package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// clientsPage is every client that holds or waits for something.
type clientsPage struct {
	paging
	Clients []*clientRow
	Total   int
}

// clientRow is a client with its leases and waits, the oldest first.
type clientRow struct {
	ID, Name, Host string
	PID            int
	Leases, Waits  []stake
	Overdue        int // of the leases
	text           string
}

// stake is a lease or a wait of a client.
type stake struct {
	Resource string        `json:"resource"`
	Kind     string        `json:"kind"`
	Reason   string        `json:"reason,omitempty"`
	Since    time.Time     `json:"since"`
	For      time.Duration `json:"-"`
}

// Longest returns how long the oldest of them has lasted.
func longest(all []stake) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[0].For
}

// LongestLease returns how long the oldest lease has lasted.
func (c *clientRow) LongestLease() time.Duration { return longest(c.Leases) }

// LongestWait returns how long the oldest wait has lasted.
func (c *clientRow) LongestWait() time.Duration { return longest(c.Waits) }

// clientsOf groups parties by client.
func clientsOf(rows []*row, now time.Time) []*clientRow {
	byID := map[string]*clientRow{}
	at := func(holderID, name, host string, pid int) *clientRow {
		id := engine.ClientOf(holderID)
		c := byID[id]
		if c == nil {
			c = &clientRow{ID: id, Name: name, Host: host, PID: pid}
			byID[id] = c
		}
		return c
	}
	for _, r := range rows {
		for _, h := range r.Holders {
			c := at(h.ID, h.Name, h.Host, h.PID)
			c.Leases = append(c.Leases, stake{r.Resource, r.Kind, h.Reason, h.Since, now.Sub(h.Since)})
			if r.Overdue(h) {
				c.Overdue++
			}
		}
		for _, w := range r.Waiters {
			c := at(w.ID, w.Name, w.Host, w.PID)
			c.Waits = append(c.Waits, stake{r.Resource, r.Kind, w.Reason, w.Since, now.Sub(w.Since)})
		}
	}
	out := make([]*clientRow, 0, len(byID))
	for _, c := range byID {
		for _, stakes := range [][]stake{c.Leases, c.Waits} {
			slices.SortFunc(stakes, func(a, b stake) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Resource, b.Resource)) })
		}
		c.text = strings.ToLower(strings.Join([]string{c.ID, c.Name, c.Host, processText(c.Name, c.Host, c.PID)}, "\x00"))
		out = append(out, c)
	}
	return out
}

// clientOrders are the orders of clients by name.
func clientOrders() map[string]func(a, b *clientRow) int {
	return map[string]func(a, b *clientRow) int{
		"": func(a, b *clientRow) int {
			return cmp.Or(cmp.Compare(b.Overdue, a.Overdue), cmp.Compare(b.LongestWait(), a.LongestWait()), cmp.Compare(len(b.Leases), len(a.Leases)))
		},
		"name":   func(a, b *clientRow) int { return cmp.Compare(a.Name, b.Name) },
		"host":   func(a, b *clientRow) int { return cmp.Compare(a.Host, b.Host) },
		"leases": func(a, b *clientRow) int { return cmp.Compare(len(b.Leases), len(a.Leases)) },
		"held":   func(a, b *clientRow) int { return cmp.Compare(b.LongestLease(), a.LongestLease()) },
		"waits":  func(a, b *clientRow) int { return cmp.Compare(len(b.Waits), len(a.Waits)) },
		"wait":   func(a, b *clientRow) int { return cmp.Compare(b.LongestWait(), a.LongestWait()) },
	}
}

func selectClients(all []*clientRow, q listQuery) []*clientRow {
	words := strings.Fields(strings.ToLower(q.Text))
	out := slices.DeleteFunc(all, func(c *clientRow) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(c.text, w) })
	})
	order, ok := clientOrders()[q.Sort]
	if !ok {
		order = clientOrders()[""]
	}
	slices.SortFunc(out, func(a, b *clientRow) int {
		return cmp.Or(order(a, b), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (d *dashboard) loadClients(ctx context.Context, r *http.Request) (content, error) {
	got, err := d.list.get(ctx)
	if err != nil {
		return content{}, err
	}
	q := queryOf(r.URL.Query())
	page := clientsPage{paging: paging{listQuery: q}}
	out := jsonClients{Clients: []jsonClient{}, Version: jsonVersion}
	if l := got.value; got.ok {
		all := clientsOf(l.rows, l.now)
		page.Total = len(all)
		page.Clients, page.paging = cut(selectClients(all, q), q)
		out.StoreTime, out.Total, out.Matched, out.Page, out.Pages = l.now.UTC(), page.Total, page.Matched, page.Page, page.Pages
		for _, c := range page.Clients {
			out.Clients = append(out.Clients, jsonClient{
				ID: c.ID, Name: c.Name, Host: c.Host, PID: c.PID, Leases: orEmpty(c.Leases), Waits: orEmpty(c.Waits), Overdue: c.Overdue,
				LongestLease: describe.Milliseconds(c.LongestLease()), LongestWait: describe.Milliseconds(c.LongestWait()),
			})
		}
	}
	return content{body: page, json: out, fresh: got.freshness()}, nil
}

// orEmpty returns a list that is [] and not null in JSON.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}
