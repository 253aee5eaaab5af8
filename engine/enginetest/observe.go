package enginetest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func snapshotOfUnused(s *scene) {
	snap := s.snapshot()
	if snap.Resource != s.res || len(snap.Holders) != 0 || len(snap.Waiters) != 0 || snap.Token != 0 {
		s.Errorf("got %+v, want nothing but the name", snap)
	}
	a := s.party("a")
	held := s.hold(a.request())
	s.release(held)
	snap = s.snapshot()
	if len(snap.Holders) != 0 || len(snap.Waiters) != 0 || snap.Token != held.Token {
		s.Errorf("got %+v, want no holder and the last token, %d", snap, held.Token)
	}
}

func snapshotContents(s *scene) {
	a, b, c, d := s.party("a"), s.party("b"), s.party("c"), s.party("d")
	first, second := s.hold(a.weighing(2, 3)), s.hold(b.weighing(1, 3))
	third, fourth := c.weighing(3, 3), d.weighing(1, 3)
	s.wait(third, 0)
	s.wait(fourth, 1)
	snap := s.snapshot()
	if snap.Resource != s.res || snap.Kind != engine.KindSemaphore || snap.Capacity != 3 || snap.Token != second.Token {
		s.Errorf("got %+v", snap)
	}
	if len(snap.Holders) != 2 || len(snap.Waiters) != 2 {
		s.Fatalf("got %+v, want two holders and two waiters", snap)
	}
	sane := func(since time.Time) { // the store's clock may differ from ours
		s.Helper()
		if time.Since(since).Abs() > 24*time.Hour {
			s.Errorf("since %v", since)
		}
	}
	for i, want := range []struct {
		p      *party
		held   engine.Held
		weight int
	}{{a, first, 2}, {b, second, 1}} {
		h := snap.Holders[i]
		if h.ID != want.held.ID || h.Token != want.held.Token || h.Weight != want.weight || h.Client != want.p.who ||
			h.Reason != "reason of "+want.p.who.Name || h.TTL <= s.least(long) || h.TTL > most(long) {
			s.Errorf("holder %d is %+v, want %+v", i, h, want)
		}
		sane(h.Since)
	}
	for i, want := range []struct {
		p *party
		r engine.Request
	}{{c, third}, {d, fourth}} {
		w := snap.Waiters[i]
		if w.ID != want.r.ID || w.Weight != want.r.Weight || w.Client != want.p.who || w.Reason != want.r.Reason {
			s.Errorf("waiter %d is %+v, want %+v", i, w, want)
		}
		sane(w.Since)
	}
}

// An expired lease is gone without any further call.
func snapshotHidesExpired(s *scene) {
	a := s.party("a")
	s.hold(lasting(short/4, a.request()))
	s.passTTL(short / 4)
	if snap := s.snapshot(); len(snap.Holders) != 0 {
		s.Errorf("got %+v, want no holder", snap)
	}
	if found := s.list("*"); len(found) != 0 {
		s.Errorf("List found %q, want nothing", found)
	}
}

// A waiter that is silent for WaiterLife is shown apart until it is dropped, and counts no more.
func snapshotShowsTheDead(s *scene) {
	a, dead, live := s.party("a"), s.party("dead"), s.party("live")
	s.hold(a.request())
	silent, other := dead.request(), live.request()
	s.wait(silent, 0)
	s.wait(other, 1)
	if snap := s.snapshot(); len(snap.Waiters) != 2 || len(snap.Dead) != 0 {
		s.Errorf("got %+v, want two live waiters", snap)
	}
	s.passTTL(engine.WaiterLife / 2)
	s.acquire(other)
	s.passTTL(engine.WaiterLife / 2)
	snap := s.snapshot()
	if len(snap.Waiters) != 1 || snap.Waiters[0].ID != other.ID || snap.Waiters[0].Silent != 0 {
		s.Errorf("got the waiters %+v, want the live one", snap.Waiters)
	}
	if len(snap.Dead) != 1 {
		s.Fatalf("got the dead %+v, want one", snap.Dead)
	}
	if w := snap.Dead[0]; w.ID != silent.ID || w.Client != dead.who || w.Reason != silent.Reason || w.Weight != 1 || w.Silent < engine.WaiterLife || w.Silent > eventTimeout {
		s.Errorf("got the dead waiter %+v, want %+v", w, silent)
	}
	if answer := s.acquire(once(s.party("b").request())); answer.Status != engine.Busy {
		s.Errorf("got %+v", answer)
	}
	for listed, err := range s.engine.List(s.ctx, s.res.Prefix, "*") {
		if err != nil || len(listed.Waiters) != 1 || len(listed.Dead) != 0 {
			s.Errorf("List yields %+v, %v", listed, err)
		}
	}
}

// list collects the names that a pattern finds.
func (s *scene) list(pattern string) []string {
	s.Helper()
	found := map[string]bool{}
	for snap, err := range s.engine.List(s.ctx, s.res.Prefix, pattern) {
		if err != nil {
			s.Fatalf("List(%q): %v", pattern, err)
		}
		if found[snap.Resource.Name] || snap.Resource.Prefix != s.res.Prefix {
			s.Errorf("List(%q) yields %+v again or from elsewhere", pattern, snap)
		}
		found[snap.Resource.Name] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func listByPattern(s *scene) {
	a, elsewhere := s.party("a"), newScene(s.TB, s.engine)
	elsewhere.hold(elsewhere.party("b").request())
	names := []string{"stock:1", "stock:2", "stock:10", "report", "a*b", "a[1]b", "a?b"}
	for _, name := range names {
		r := a.request()
		r.Resource.Name = name
		s.hold(r)
	}
	gone := a.request()
	gone.Resource.Name = "stock:3"
	s.on("stock:3").release(s.hold(gone))
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{"*", names},
		{"stock:*", []string{"stock:1", "stock:2", "stock:10"}},
		{"stock:?", []string{"stock:1", "stock:2"}},
		{"stock:1", []string{"stock:1"}},
		{"*o*", []string{"stock:1", "stock:2", "stock:10", "report"}},
		{`a\*b`, []string{"a*b"}},
		{"a?b", []string{"a*b", "a?b"}},
		{"a[1]b", []string{"a[1]b"}},
		{"a[*", []string{"a[1]b"}},
		{"", nil},
		{"nothing", nil},
	} {
		want := slices.Sorted(slices.Values(c.want))
		if got := s.list(c.pattern); !slices.Equal(got, want) {
			s.Errorf("List(%q) found %q, want %q", c.pattern, got, want)
		}
	}
}

func listStopsEarly(s *scene) {
	a := s.party("a")
	for _, name := range []string{"1", "2", "3"} {
		r := a.request()
		r.Resource.Name = name
		s.hold(r)
	}
	seen := 0
	for snap, err := range s.engine.List(s.ctx, s.res.Prefix, "*") {
		if err != nil || len(snap.Holders) != 1 || snap.Holders[0].Client != a.who {
			s.Errorf("got %+v, %v", snap, err)
		}
		seen++
		break
	}
	if seen != 1 {
		s.Errorf("%d snapshots, want 1", seen)
	}
}

// anyName sends each odd name the whole way: grant, queue, wake-up, list.
func anyName(s *scene) {
	a, b := s.party("a"), s.party("b")
	for _, name := range []string{
		"plain", "{braces}", "}{", "{", "}", "{}", "a{b}c{d}", "white space", " ", "100%", "%s%d", "*", "?", "[a-z]", `back\slash`,
		"new\nline", "tab\tcr\r", "nul\x00byte", "quote'\"`", "库存:四十二", "é́", "a:b:c", ":", ".", "a.b", "|", ",", "-1", "0",
		strings.Repeat("x", 512), strings.Repeat("{", 512), strings.Repeat("锁", 170),
	} {
		one := s.on(name)
		first, second := a.request(), b.request()
		first.Resource, second.Resource = one.res, one.res
		held := one.hold(first)
		one.wait(second, 0)
		if snap := one.snapshot(); snap.Resource != one.res || len(snap.Holders) != 1 || len(snap.Waiters) != 1 && !s.unordered {
			s.Errorf("%q: got %+v", name, snap)
		}
		if found := s.list(escape(name)); len(found) != 1 || found[0] != name {
			s.Errorf("%q: List found %q", name, found)
		}
		one.release(held)
		next := b.handed(second)
		if err := one.renew(next, long); err != nil {
			s.Errorf("%q: %v", name, err)
		}
		if err := s.engine.Break(s.ctx, one.res, engine.Break{ID: next.ID}); err != nil {
			s.Errorf("%q: %v", name, err)
		}
		b.broken(next.ID)
	}
}

// escape makes a pattern that matches just this name.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`).Replace(name)
}
