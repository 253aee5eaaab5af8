package command

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// TestSortBy sorts four resources of which every order is another one: "ab" stands for a before b.
func TestSortBy(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	of := func(name string, held time.Duration, waiters int, ttls ...time.Duration) holdfast.Snapshot {
		s := holdfast.Snapshot{Resource: name, Waiters: make([]holdfast.Waiter, waiters)}
		for _, ttl := range ttls {
			s.Holders = append(s.Holders, holdfast.Holder{Since: now.Add(-held), TTL: ttl})
		}
		return s
	}
	for by, want := range map[string]string{
		"": "abcd", "name": "abcd",
		"held":    "cadb", // b has no holder
		"waiters": "bdac", // a and c have as many
		"ttl":     "dacb",
	} {
		all := []holdfast.Snapshot{
			of("c", time.Hour, 0, 9*time.Second),
			of("d", time.Second, 2, 7*time.Second, time.Second),
			of("b", 0, 3),
			of("a", time.Minute, 0, 5*time.Second),
		}
		sortBy(by, all)
		var got strings.Builder
		for _, s := range all {
			got.WriteString(s.Resource)
		}
		if got.String() != want {
			t.Errorf("by %q: got %s, want %s", by, got.String(), want)
		}
	}
}

func TestWants(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	span := func(d time.Duration) *span { s := span(d); return &s }
	held := holdfast.Snapshot{
		Kind:    "semaphore",
		Holders: []holdfast.Holder{{Host: "n1", Since: ago(time.Minute)}, {Host: "n2", Since: ago(time.Second)}},
		Waiters: []holdfast.Waiter{{Host: "n3", Since: ago(30 * time.Second)}},
	}
	waited := holdfast.Snapshot{Kind: "mutex", Waiters: []holdfast.Waiter{{Host: "n3", Since: ago(30 * time.Second)}}}
	by := &holdfast.Holder{ID: "x", Host: "n4", Since: ago(time.Hour)}
	for name, c := range map[string]struct {
		flags selection
		snap  holdfast.Snapshot
		by    *holdfast.Holder
		want  bool
	}{
		"no flag":                   {selection{}, held, nil, true},
		"nobody":                    {selection{}, holdfast.Snapshot{}, nil, true},
		"kind":                      {selection{Kind: "semaphore"}, held, nil, true},
		"another kind":              {selection{Kind: "mutex"}, held, nil, false},
		"host of the first holder":  {selection{Host: "n1"}, held, nil, true},
		"host of the second holder": {selection{Host: "n2"}, held, nil, true},
		"host of a waiter":          {selection{Host: "n3"}, held, nil, true},
		"host of nobody":            {selection{Host: "n4"}, held, nil, false},
		"host of a mark":            {selection{Host: "n4"}, holdfast.Snapshot{}, by, true},
		"a mark by nobody":          {selection{Host: "n4"}, holdfast.Snapshot{}, &holdfast.Holder{Host: "n4"}, false},
		"age of a holder":           {selection{OlderThan: span(time.Minute)}, held, nil, true},
		"a holder is too young":     {selection{OlderThan: span(time.Minute + 1)}, held, nil, false},
		"age of a waiter":           {selection{OlderThan: span(30 * time.Second)}, waited, nil, true},
		"a waiter is too young":     {selection{OlderThan: span(31 * time.Second)}, waited, nil, false},
		"age of a mark":             {selection{OlderThan: span(time.Hour)}, holdfast.Snapshot{}, by, true},
		"age of nobody":             {selection{OlderThan: span(0)}, holdfast.Snapshot{}, nil, false},
		"kind but not host":         {selection{Kind: "semaphore", Host: "n4"}, held, nil, false},
		"host but not kind":         {selection{Kind: "mutex", Host: "n1"}, held, nil, false},
		"host but not age":          {selection{Host: "n1", OlderThan: span(time.Hour)}, held, nil, false},
		"all three":                 {selection{Kind: "semaphore", Host: "n2", OlderThan: span(time.Minute)}, held, nil, true},
	} {
		if got := c.flags.wants(c.snap, c.by, now); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
