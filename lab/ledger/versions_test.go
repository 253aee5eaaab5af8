package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// at is a version of the document of x at an instant of the history.
func at(when time.Duration, d documentText) version { return between(when, when, d) }

// between is one that was made between two instants.
func between(from, to time.Duration, d documentText) version {
	made := span{from, to}
	return version{resource: "x", made: made, counted: made, value: d.bytes()}
}

// leased is a document of one lease, on a store with a clock.
func leased(holder string, token uint64, until time.Duration) documentText {
	return documentText{last: token, leases: []documentLease{{holder: holder, token: token, deadline: wall(start) + until}}}
}

// stampedLease is a document of one lease of 100 ms, on a store without a clock.
func stampedLease(holder string, token, stamp uint64) documentText {
	return documentText{last: token, stamped: true, leases: []documentLease{{holder: holder, token: token, stamp: stamp, deadline: 100 * ms}}}
}

// free is a document without leases.
func free(last uint64, expired string) documentText {
	return documentText{last: last, expired: expired}
}

func TestWindowsAreComparedWithDocuments(t *testing.T) {
	const ttl = 100 * ms
	const made = 9500 * time.Microsecond // of the grant
	window := made + ttl - Margin(ttl)
	grant, renewed := at(made, leased("c.a", 7, made+ttl)), at(40*ms, leased("c.a", 7, 140*ms))
	breaking := leased("c.a", 7, made+ttl)
	breaking.leases[0].breaking = true
	stamped, released := at(made, stampedLease("c.a", 7, 1)), at(80500*time.Microsecond, free(7, ""))
	damaged := grant
	damaged.value = damaged.value[:20]
	for name, c := range map[string]struct {
		until    time.Duration
		token    uint64
		versions []version
		want     string // part of the violation; empty: none
	}{
		"a lease that is kept and released":      {window, 7, []version{grant, released}, ""},
		"a lease that is renewed":                {window, 7, []version{grant, renewed, released}, ""},
		"a lease that an operator breaks":        {window, 7, []version{grant, at(40*ms, breaking), released}, ""},
		"a lease that is handed off":             {window, 9, []version{grant, released}, ""},
		"a window without a margin":              {window + Margin(ttl), 7, []version{grant, released}, "before the deadlines that were stored"},
		"a window of a later reply":              {window + 500*time.Microsecond, 7, []version{grant, released}, "before the deadlines that were stored"},
		"a window of a renewal that comes later": {140*ms - Margin(ttl), 7, []version{grant, renewed, released}, "before the deadlines that were stored"},
		"a lease that was never granted":         {window, 7, []version{at(made, leased("c.b", 7, made+ttl))}, "0 of 1 nodes have granted"},
		"a lease that was granted later":         {window, 7, []version{at(12*ms, leased("c.a", 7, 12*ms+ttl)), released}, "0 of 1 nodes have granted"},
		"a lease that another gets":              {window, 7, []version{grant, at(40*ms, leased("c.b", 8, 140*ms))}, "ended in the store at 40ms, 39ms before the client stopped"},
		"a document that is deleted":             {window, 7, []version{grant, {resource: "x", made: instant(30 * ms)}}, "ended in the store at 30ms"},
		"a lease of another resource":            {window, 7, []version{{resource: "y", made: grant.made, counted: grant.made, value: grant.value}}, "0 of 1 nodes have granted"},
		"a token below that of the lease":        {window, 6, []version{grant, released}, "whose tokens begin with 7"},
		"a token of a later lease":               {window, 8, []version{grant, released, at(90*ms, leased("c.b", 8, 190*ms))}, "8 in the store is the token of c.b"},
		"a token that is given twice":            {window, 7, []version{grant, released, at(90*ms, leased("c.b", 7, 190*ms))}, "lease c.b got token 7"},
		"a token that was reserved":              {window, 7, []version{grant, at(80*ms, free(20, "")), at(90*ms, leased("c.b", 20, 190*ms))}, "lease c.b got token 20"},
		"a token given again after a deletion":   {window, 7, []version{grant, released, {resource: "x", made: instant(85 * ms)}, at(90*ms, leased("c.b", 6, 190*ms))}, "lease c.b got token 6"},
		"a token that changes":                   {window, 7, []version{grant, at(40*ms, leased("c.a", 8, 140*ms)), released}, "lease c.a of token 7 has token 8"},
		"a lease that expires in time":           {window, 7, []version{grant, at(made+ttl, free(7, "c.a"))}, ""},
		"a lease that expires too early":         {50 * ms, 7, []version{grant, at(made+ttl-ms, free(7, "c.a"))}, "1ms before its time was over"},
		"a document that cannot be read":         {window, 7, []version{grant, damaged, released}, "cannot be read"},

		"no clock: a lease that is kept and released": {window, 7, []version{stamped, released}, ""},
		"no clock: a window without a margin":         {window + Margin(ttl), 7, []version{stamped, released}, "before the deadlines that were stored"},
		"no clock: a window of a later reply":         {window + 500*time.Microsecond, 7, []version{stamped, released}, "before the deadlines that were stored"},
		"no clock: a change without a renewal":        {window + 5*ms, 7, []version{stamped, at(9900*time.Microsecond, stampedLease("c.a", 7, 1)), released}, "before the deadlines that were stored"},
		"no clock: a change with a renewal":           {window + 5*ms, 7, []version{at(5*ms, stampedLease("c.a", 7, 1)), at(made+5*ms, stampedLease("c.a", 7, 2)), released}, "before the deadlines that were stored"},
		"no clock: the time is known within 5 ms":     {window, 7, []version{between(7*ms, 12*ms, stampedLease("c.a", 7, 1)), released}, ""},
		"no clock: a window after all that time":      {window + 3*ms, 7, []version{between(7*ms, 12*ms, stampedLease("c.a", 7, 1)), released}, "before the deadlines that were stored"},
		"no clock: a lease that another gets":         {window, 7, []version{stamped, between(40*ms, 60*ms, stampedLease("c.b", 8, 3))}, "ended in the store at 60ms"},
		"no clock: a lease that expires too early":    {50 * ms, 7, []version{stamped, at(made+ttl-ms, free(7, "c.a"))}, "1ms before its time was over"},
		"no clock: one that may have expired in time": {50 * ms, 7, []version{between(7*ms, 9*ms, stampedLease("c.a", 7, 1)), between(100*ms, 108*ms, free(7, "c.a"))}, ""},
	} {
		l := New("app", start)
		for _, v := range c.versions {
			l.apply(v)
		}
		ops := relied(c.until)
		for i := range ops {
			ops[i].Token = c.token
		}
		judged, found := Judge(ops, ttl, []*Ledger{l})
		if judged != 1 {
			t.Errorf("%s: %d windows were compared", name, judged)
		}
		if all := fmt.Sprint(found); c.want == "" && len(found) > 0 || !strings.Contains(all, c.want) {
			t.Errorf("%s: %s; want %q", name, all, c.want)
		}
	}
}

// A window is compared, but does not count, if the time of the grant is not known within the margin.
func TestVagueWindowsDoNotCount(t *testing.T) {
	const ttl = 100 * ms
	judge := func(from, to, until time.Duration) (int, []string) {
		l := New("app", start)
		l.apply(between(from, to, stampedLease("c.a", 7, 1)))
		l.apply(at(81*ms, free(7, "")))
		ops := relied(until)
		for i := range ops {
			ops[i].Token = 7
		}
		judged, found := Judge(ops, ttl, []*Ledger{l})
		var texts []string
		for _, v := range found {
			texts = append(texts, v.Text)
		}
		return judged, texts
	}
	if judged, found := judge(8*ms, 9*ms, 85*ms); judged != 1 || len(found) > 0 {
		t.Errorf("known within 1 ms: %d compared, %q", judged, found)
	}
	if judged, found := judge(8*ms, 40*ms, 85*ms); judged != 0 || len(found) > 0 {
		t.Errorf("known within 32 ms: %d compared, %q", judged, found)
	}
	if _, found := judge(8*ms, 40*ms, 130*ms); len(found) != 1 {
		t.Errorf("known within 32 ms, a window after all of it: %q", found)
	}
}

// The bounds of a revision are those of the ticks before and after it, or the time at which the watch sent it.
func TestBoundsOfARevision(t *testing.T) {
	w := &keyWatch{ticks: []tick{{1 * ms, 2 * ms, 10}, {3 * ms, 6 * ms, 11}, {7 * ms, 9 * ms, 14}}}
	for _, c := range []struct {
		revision int64
		got      time.Duration
		want     span
	}{{11, 20 * ms, span{1 * ms, 6 * ms}}, {12, 20 * ms, span{3 * ms, 9 * ms}}, {12, 4 * ms, span{3 * ms, 4 * ms}}, {15, 20 * ms, span{7 * ms, 20 * ms}}} {
		if got := w.bounds(keyEvent{revision: c.revision, got: c.got}); got != c.want {
			t.Errorf("revision %d, sent at %v: %v, want %v", c.revision, c.got, got, c.want)
		}
	}
}
