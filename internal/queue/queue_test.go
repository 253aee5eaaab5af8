package queue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// start is the time at which the tables begin: far above all spans.
const start = 10_000 * queue.Second

const sec = queue.Second

func mutex(id string) queue.Request {
	return queue.Request{ID: id, Kind: "mutex", Capacity: 1, Weight: 1, TTL: 10 * sec, Queue: true}
}

func share(id string, weight, capacity int) queue.Request {
	return queue.Request{ID: id, Kind: "semaphore", Capacity: capacity, Weight: weight, TTL: 10 * sec, Queue: true}
}

// Rule: at or after the deadline a lease is not held, whether anybody has
// looked or not.
func TestRuleDeadline(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  queue.Time
		held   bool
		renew  queue.Status
		newbie queue.Status
	}{
		{"at once", 0, true, queue.Done, queue.Busy},
		{"just before", 10*sec - 1, true, queue.Done, queue.Busy},
		{"at the deadline", 10 * sec, false, queue.NotHeld, queue.Granted},
		{"long after", 100 * sec, false, queue.NotHeld, queue.Granted},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := func() *queue.Queue {
				q := queue.New(params, start)
				q.Acquire(mutex("a"), start)
				return q
			}
			now := start + c.after
			if got := len(begin().Snapshot(now).Holders) == 1; got != c.held {
				t.Errorf("held: %v, want %v", got, c.held)
			}
			if got := begin().Renew("a", uint64(start), sec, now); got.Status != c.renew {
				t.Errorf("renew: %+v, want status %d", got, c.renew)
			}
			r := mutex("b")
			r.Queue = false
			if got := begin().Acquire(r, now); got.Status != c.newbie {
				t.Errorf("acquire: %+v, want status %d", got, c.newbie)
			}
		})
	}
}

// Rule: waiters are granted from the front only, as many as fit.
func TestRuleFront(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting []int // weights; 4 of 4 are held, and released
		granted string
	}{
		{"one", []int{1}, "0"},
		{"all that fit", []int{1, 1, 1, 1}, "0 1 2 3"},
		{"up to the capacity", []int{1, 2, 1, 1}, "0 1 2"},
		{"a heavy one first", []int{4, 1, 1}, "0"},
		{"a heavy one second keeps the rest out", []int{1, 4, 1, 1}, "0"},
		{"a gap is not filled from behind", []int{3, 2, 1}, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New(params, start)
			q.Acquire(share("held", 4, 4), start)
			for i, weight := range c.waiting {
				if a := q.Acquire(share(string(rune('0'+i)), weight, 4), start); a.Status != queue.Queued || a.Position != i {
					t.Fatalf("waiter %d: %+v", i, a)
				}
			}
			if got := ids(q.Release("held", uint64(start), false, 0, start)); got != c.granted {
				t.Errorf("granted %q, want %q", got, c.granted)
			}
		})
	}
}

func ids(a queue.Answer) string {
	var all []string
	for _, g := range a.Grants {
		all = append(all, g.ID)
	}
	return strings.Join(all, " ")
}

// Rule: every operation first reaps expired leases and grants what that frees.
func TestRuleReap(t *testing.T) {
	for name, op := range map[string]func(q *queue.Queue, now queue.Time) queue.Answer{
		"acquire":  func(q *queue.Queue, now queue.Time) queue.Answer { return q.Acquire(mutex("c"), now) },
		"ended":    func(q *queue.Queue, now queue.Time) queue.Answer { return q.Acquire(mutex("a"), now) },
		"mismatch": func(q *queue.Queue, now queue.Time) queue.Answer { return q.Acquire(share("c", 1, 2), now) },
		"renew":    func(q *queue.Queue, now queue.Time) queue.Answer { return q.Renew("a", uint64(start), sec, now) },
		"release":  func(q *queue.Queue, now queue.Time) queue.Answer { return q.Release("a", uint64(start), false, 0, now) },
		"resize":   func(q *queue.Queue, now queue.Time) queue.Answer { return q.Resize("a", uint64(start), 1, now) },
		"withdraw": func(q *queue.Queue, now queue.Time) queue.Answer { return q.Release("c", 0, true, 0, now) },
		"break":    func(q *queue.Queue, now queue.Time) queue.Answer { return q.Break(queue.Break{ID: "c"}, now) },
	} {
		t.Run(name, func(t *testing.T) {
			q := queue.New(params, start)
			q.Acquire(mutex("a"), start)
			q.Acquire(mutex("b"), start+9*sec)
			now := start + 10*sec
			got := op(q, now)
			want := []queue.Grant{{ID: "b", Token: uint64(now), TTL: params.ClaimWindow}}
			if !slices.Equal(got.Grants, want) {
				t.Errorf("granted %+v, want %+v", got.Grants, want)
			}
		})
	}
}

// Rule: a waiter that has not polled for WaiterLife is dropped at the front; a
// grant to one that did not poll at that moment is good for ClaimWindow.
func TestRuleWaiter(t *testing.T) {
	for _, c := range []struct {
		name  string
		ttl   queue.Time
		quiet queue.Time // since b polled
		want  []queue.Grant
	}{
		{"polls in time", 10 * sec, 3*sec - 1, []queue.Grant{{ID: "b", Token: uint64(start + 3*sec - 1), TTL: 3 * sec}}},
		{"polls too late", 10 * sec, 3 * sec, []queue.Grant{{ID: "c", Token: uint64(start + 3*sec), TTL: 3 * sec}}},
		{"wants less than a claim window", sec, 0, []queue.Grant{{ID: "b", Token: uint64(start + 1), TTL: sec}}},
		{"wants a claim window", 3 * sec, 0, []queue.Grant{{ID: "b", Token: uint64(start + 1), TTL: 3 * sec}}},
		{"wants a little more", 3*sec + 1, 0, []queue.Grant{{ID: "b", Token: uint64(start + 1), TTL: 3 * sec}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New(params, start)
			q.Acquire(mutex("a"), start)
			b := mutex("b")
			b.TTL = c.ttl
			q.Acquire(b, start)
			now := start + c.quiet
			q.Acquire(mutex("c"), now)
			if got := q.Release("a", uint64(start), false, 0, now); !slices.Equal(got.Grants, c.want) {
				t.Errorf("granted %+v, want %+v", got.Grants, c.want)
			}
		})
	}
}

// Rule: a token is max(last+1, now), or the ballot.
func TestRuleToken(t *testing.T) {
	const t0 = uint64(start)
	old := t0 - uint64(params.Retention)
	for _, c := range []struct {
		name    string
		reserve uint64     // of a lease before, granted at t0 and released
		after   queue.Time // may be negative: the clock steps back
		ballot  uint64
		want    queue.Status
		token   uint64
	}{
		{"by the clock", 0, sec, 0, queue.Granted, t0 + 1_000_000},
		{"within the same microsecond", 0, 0, 0, queue.Granted, t0 + 1},
		{"the clock stepped back", 0, -5 * sec, 0, queue.Granted, t0 + 1},
		{"above the reserved ones", 50, 0, 0, queue.Granted, t0 + 51},
		{"the clock is past the reserved ones", 50, sec, 0, queue.Granted, t0 + 1_000_000},
		{"ballot above last", 0, sec, t0 + 1, queue.Granted, t0 + 1},
		{"ballot is last", 0, sec, t0, queue.Outbid, t0 + 1_000_000},
		{"ballot below last", 0, sec, 5, queue.Outbid, t0 + 1_000_000},
		{"ballot among the reserved ones", 50, 0, t0 + 50, queue.Outbid, t0 + 50},
		{"ballot above the reserved ones", 50, 0, t0 + 51, queue.Granted, t0 + 51},
		{"ballot a day ahead", 0, 0, t0 + uint64(params.BallotAhead), queue.Granted, t0 + uint64(params.BallotAhead)},
		{"ballot further ahead", 0, 0, t0 + uint64(params.BallotAhead) + 1, queue.TooFar, 0},
		{"ballot below the retention, state kept", 0, 2 * params.Retention, t0 + 1, queue.Outbid, t0 + 2*uint64(params.Retention)},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New(params, start)
			first := mutex("first")
			first.Reserve = c.reserve
			q.Acquire(first, start)
			q.Release("first", t0, false, 0, start)
			r := mutex("r")
			r.Ballot = c.ballot
			got := q.Acquire(r, start+c.after)
			if got.Status != c.want || max(got.Token, got.Last) != c.token {
				t.Errorf("got %+v, want status %d and token %d", got, c.want, c.token)
			}
		})
	}
	t.Run("ballot that a forgotten state may have given", func(t *testing.T) {
		r := mutex("r")
		r.Ballot = old
		if got := queue.New(params, start).Acquire(r, start); got.Status != queue.Outbid || got.Last != t0 {
			t.Errorf("got %+v, want outbid by %d", got, t0)
		}
		r.Ballot++
		if got := queue.New(params, start).Acquire(r, start); got.Status != queue.Granted {
			t.Errorf("got %+v, want it granted", got)
		}
	})
}

// Rule: what is not a plain release leaves a tombstone for Retention; an
// unknown ID with a token between birth and last was released.
func TestRuleTombstones(t *testing.T) {
	token := uint64(start)
	for _, c := range []struct {
		name   string
		end    func(q *queue.Queue, now queue.Time)
		again  queue.Cause // why its acquire is refused; 0 if it is not
		renew  queue.Cause
		taken  queue.Cause // the same when another one holds
		forgot queue.Cause // the same when the retention is over
	}{
		{"released", func(q *queue.Queue, now queue.Time) { q.Release("a", token, false, 0, now) },
			0, queue.Released, queue.Released, queue.Released},
		{"withdrawn", func(q *queue.Queue, now queue.Time) { q.Release("a", 0, true, 0, now) },
			queue.Released, queue.Released, queue.Released, queue.Released},
		{"broken", func(q *queue.Queue, now queue.Time) { q.Break(queue.Break{ID: "a"}, now) },
			queue.Broken, queue.Broken, queue.Broken, queue.Released},
		{"expired", func(q *queue.Queue, now queue.Time) { q.Break(queue.Break{ID: "nobody"}, now+10*sec) },
			queue.Expired, queue.Expired, queue.Taken, queue.Released},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New(params, start)
			q.Acquire(mutex("a"), start)
			c.end(q, start)
			now := start + 10*sec
			if got := q.Renew("a", token, sec, now).Cause; got != c.renew {
				t.Errorf("renew: %d, want %d", got, c.renew)
			}
			if c.again != 0 {
				if got := q.Acquire(mutex("a"), now); got.Status != queue.Ended || got.Cause != c.again {
					t.Errorf("acquire: %+v, want ended: %d", got, c.again)
				}
			}
			q.Acquire(mutex("b"), now)
			if got := q.Renew("a", token, sec, now).Cause; got != c.taken {
				t.Errorf("renew while another holds: %d, want %d", got, c.taken)
			}
			now += params.Retention
			if got := q.Renew("a", token, sec, now).Cause; got != c.forgot {
				t.Errorf("renew after the retention: %d, want %d", got, c.forgot)
			}
			if got := q.Renew("never", token-1, sec, now).Cause; got != queue.Deleted {
				t.Errorf("renew with a token before birth: %d, want deleted", got)
			}
		})
	}
}

// The state may be dropped when the retention is over since anything in it
// mattered.
func TestForgettable(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(q *queue.Queue)
		at   queue.Time // first instant at which it may go, after start and retention
	}{
		{"new", func(*queue.Queue) {}, 0},
		{"holder", func(q *queue.Queue) { q.Acquire(mutex("a"), start) }, 10 * sec},
		{"released", func(q *queue.Queue) {
			q.Acquire(mutex("a"), start)
			q.Release("a", uint64(start), false, 0, start+sec)
		}, 10 * sec},
		{"renewed", func(q *queue.Queue) {
			q.Acquire(mutex("a"), start)
			q.Renew("a", uint64(start), 20*sec, start+5*sec)
		}, 25 * sec},
		{"withdrawn", func(q *queue.Queue) { q.Release("a", 0, true, 0, start+7*sec) }, 7 * sec},
		{"broken at its end", func(q *queue.Queue) {
			q.Acquire(mutex("a"), start)
			q.Break(queue.Break{ID: "a"}, start+10*sec-1)
		}, 10 * sec},
		{"marked", func(q *queue.Queue) {
			q.Acquire(mutex("a"), start)
			q.Release("a", uint64(start), false, 50*sec, start+sec)
		}, 51 * sec},
		{"marked at the grant", func(q *queue.Queue) {
			r := mutex("a")
			r.Mark = 50 * sec
			q.Acquire(r, start)
		}, 50 * sec},
		{"reserved tokens", func(q *queue.Queue) {
			r := mutex("a")
			r.Reserve = 30_000_000
			q.Acquire(r, start)
		}, 30 * sec},
		{"ballot", func(q *queue.Queue) {
			r := mutex("a")
			r.Ballot = uint64(start) + 3_600_000_000
			q.Acquire(r, start)
		}, 3600 * sec},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New(params, start)
			c.use(q)
			at := start + c.at + params.Retention
			if q.Forgettable(at-1) || !q.Forgettable(at) {
				t.Errorf("want it forgettable from %d on: %v, %v", c.at, q.Forgettable(at-1), q.Forgettable(at))
			}
		})
	}
}

// A state may be dropped at the first instant at which it is forgettable, and no
// earlier: whatever was done to it, a token that it has given or reserved is not
// given again, by the clock or by a ballot.
func TestTokensRiseAcrossForgetting(t *testing.T) {
	for name, use := range map[string]func(q *queue.Queue){
		"released": func(q *queue.Queue) { q.Release("a", uint64(start), false, 0, start+sec) },
		"renewed":  func(q *queue.Queue) { q.Renew("a", uint64(start), 20*sec, start+5*sec) },
		"expired":  func(*queue.Queue) {},
		"broken":   func(q *queue.Queue) { q.Break(queue.Break{ID: "a"}, start+sec) },
		"marked":   func(q *queue.Queue) { q.Release("a", uint64(start), false, 50*sec, start+sec) },
	} {
		for _, reserve := range []uint64{0, 64, 30_000_000} { // the last are ahead of the deadline
			q := queue.New(params, start)
			r := mutex("a")
			r.Reserve = reserve
			q.Acquire(r, start)
			use(q)
			last, now := q.Snapshot(start).Last, start
			for !q.Forgettable(now) {
				now += sec
			}
			if q.Forgettable(now - 1) {
				t.Fatalf("%s, %d reserved: %d is not the first instant at which it is forgettable", name, reserve, now)
			}
			for at, state := range map[queue.Time]*queue.Queue{now - 1: q, now: queue.New(params, now), now + 1: queue.New(params, now+1)} {
				stale := mutex("stale")
				stale.Ballot = last
				if got := state.Acquire(stale, at); got.Status != queue.Outbid {
					t.Errorf("%s, %d reserved, %d after: the last token as a ballot: got %+v, want it outbid", name, reserve, at-now, got)
				}
				if got := state.Acquire(mutex("b"), at); got.Status != queue.Granted || got.Token <= last {
					t.Errorf("%s, %d reserved, %d after: got %+v after token %d", name, reserve, at-now, got, last)
				}
			}
		}
	}
}

// The memory of tombstones is bounded by how many come within the retention.
func TestTombstonesAreSwept(t *testing.T) {
	q := queue.New(params, start)
	for i := range queue.Time(100_000) {
		q.Release(string(rune('a'+i%26))+show(i), 0, true, 0, start+i*sec)
	}
	if n := q.Tombstones(); n > 2*600+16+1 {
		t.Errorf("%d tombstones are kept, want two retentions' worth at most", n)
	}
}
