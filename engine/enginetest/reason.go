package enginetest

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// reasons are texts of requests. The first is the longest one of a client: the value of a
// candidate with 1,024 bytes, and a span behind it.
func reasons() []string {
	const span = "\x1fAz09-_~xAz09-_~xAz09-_~xAz09-_~x"
	return []string{strings.Repeat("é\n", 341) + "." + span, span, "0 1 2", " ", "%d %%", "nul \x00 and more", ""}
}

// The text of a request is returned as it was given, whatever it contains: by a refusal, by what
// shows holders and waiters, and after a grant to a waiter.
func anyReason(s *scene) {
	a, b, c := s.party("a"), s.party("b"), s.party("c")
	for i, reason := range reasons() {
		for _, capacity := range []int{1, 3} {
			s := s.on(fmt.Sprint("stock:", i, ":", capacity))
			r := func(p *party) engine.Request {
				r := p.weighing(capacity, capacity)
				r.Resource, r.Reason = s.res, reason
				return r
			}
			same := func(what, got string) {
				s.Helper()
				if got != reason {
					s.Errorf("capacity %d: %s has the reason %q, want %q", capacity, what, got, reason)
				}
			}
			held, waits := s.hold(r(a)), r(b)
			s.wait(waits, 0)
			same("the holder in a refusal", s.refuse(once(r(c))).Holder.Reason)
			shown := s.snapshot()
			same("the holder", shown.Holders[0].Reason)
			for _, w := range shown.Waiters {
				same("the waiter", w.Reason)
			}
			if capacity == 1 {
				same("the holder in a peek", s.peek().Holders[0].Reason)
			}
			s.release(held)
			held = b.poll(waits)
			same("the waiter that was granted", s.snapshot().Holders[0].Reason)
			s.release(held)
		}
	}
}
