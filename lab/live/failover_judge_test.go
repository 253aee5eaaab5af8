package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
)

// failedOver is a run on a master and a replica that was promoted between 50 and 60 ms, which clients knew at 70 ms. The deadlines of
// lease id of client a are those that the two servers stored.
type failedOver struct {
	old, fresh []deadline
	ops        []history.Op
}

// deadline is one that a server stored at an instant; 0: the end of the lease.
type deadline struct {
	holder    string
	at, until time.Duration
}

func (f failedOver) run(t *testing.T, subject string, hits ...fault.Fault) *run {
	t.Helper()
	r := &run{rec: history.NewRecorderAt(epoch), p: Program{Subject: subject, TTL: 100 * ms, Resources: []Resource{{Name: "r", Kind: Counter}}}, inj: fault.NewInjector(&fault.Live{}, hits...)}
	for _, stored := range [][]deadline{f.old, f.fresh} {
		l := ledger.New("p", epoch)
		for _, d := range stored {
			l.Add(epoch.Add(d.at), "HSET", "p:{r}", "holder", d.holder, "deadline", fmt.Sprint(epoch.Add(d.until).UnixMicro()), "token", fmt.Sprint(epoch.Add(d.at).UnixMicro()))
		}
		r.ledgers = append(r.ledgers, l)
	}
	r.roles = &roles{run: r, shards: map[string][]int{"r": {0, 1}}, first: []int{0}, all: []promotion{{node: 1, from: 50 * ms, at: 60 * ms, known: 70 * ms}}}
	return r
}

// epoch is the start of the histories.
var epoch = time.UnixMicro(time.Now().UnixMicro())

// stored is a grant of the lease with an ID in the store, requested at an instant and good for 78 ms.
func stored(client, id string, at time.Duration) history.Op {
	op := got(client, client+"1", at, at+ms, uint64(epoch.Add(at+ms).UnixMicro()))
	op.Store, op.Until = id, at+78*ms
	return op
}

// A lease that the promoted server did not have, or of which it missed a renewal, excludes no others from the promotion on; one that it had does,
// and with confirmed replicas none may be missing.
func TestLeasesOverAFailover(t *testing.T) {
	a := stored("a", "x", 20*ms)
	renewed := history.Op{Client: "a", Kind: history.Renew, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 45 * ms, Return: 45 * ms, Until: 122 * ms}
	b := func(at time.Duration) history.Op { return stored("b", "y", at) }
	had := []deadline{{"x", 21 * ms, 121 * ms}}
	for _, c := range []struct {
		name    string
		play    failedOver
		lost    int // uses
		carried int
		overlap int // violations without confirmed replicas
	}{
		{"the replica had it, and nobody else gets it", failedOver{had, had, []history.Op{a}}, 0, 1, 0},
		{"the replica had it, and another gets it", failedOver{had, had, []history.Op{a, b(61 * ms)}}, 0, 1, 1},
		{"the replica never had it, and another gets it", failedOver{had, nil, []history.Op{a, b(61 * ms)}}, 1, 0, 0},
		{"the replica never had it, and another gets it while the old master lives", failedOver{had, nil, []history.Op{a, b(40 * ms)}}, 2, 0, 1},
		{"the replica missed a renewal, and another gets it after that", failedOver{[]deadline{{"x", 21 * ms, 121 * ms}, {"x", 44 * ms, 144 * ms}}, had,
			[]history.Op{a, renewed, b(115 * ms)}}, 1, 0, 1}, // the lease was still good for 6 ms
		{"another has it from the old master after the promotion", failedOver{[]deadline{{"y", 65 * ms, 165 * ms}}, had,
			[]history.Op{a, b(64 * ms)}}, 1, 1, 0},
		{"another has it from the old master after the promotion, and renews it for ever", failedOver{[]deadline{{"x", 21 * ms, 121 * ms}}, nil,
			[]history.Op{a, renewedUntil(renewed, 800*ms)}}, 1, 0, 1},
		{"the replica missed the renewal of a client that died before", failedOver{[]deadline{{"x", 21 * ms, 121 * ms}, {"x", 44 * ms, 144 * ms}}, had,
			[]history.Op{a, renewed, {Client: "a", Kind: history.Leave, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 46 * ms, Return: 46 * ms, Note: died}, b(122 * ms)}}, 1, 0, 0},
		{"it was released before", failedOver{had, nil, []history.Op{a, {Client: "a", Kind: history.Release, Resource: "r", Holder: "a1", Outcome: history.OK, Call: 30 * ms, Return: 31 * ms}, b(61 * ms)}}, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.play.run(t, "holdfast-sentinel", fault.Fault{Kind: fault.Failover, Target: "node1", At: fault.After(0)})
			over := r.overFailovers(c.play.ops)
			if over.safe || len(over.lost) != c.lost || over.carried != c.carried {
				t.Errorf("%d lost and %d carried, want %d and %d; safe %v", len(over.lost), over.carried, c.lost, c.carried, over.safe)
			}
			all := slices.Concat(c.play.ops, over.excused())
			ended := check.Check{Name: "ended", Find: func(ops []history.Op) []check.Violation { return check.Ended(r.p.TTL).Find(inTime(ops)) }}
			if found := check.Run(all, check.Overlap(), ended); len(found) != c.overlap {
				t.Errorf("found %v, want %d", found, c.overlap)
			}
			confirmed := c.play.run(t, "holdfast-sentinel-replicas").overFailovers(c.play.ops)
			if found := confirmed.violations(); !confirmed.safe || len(found) != c.lost || len(confirmed.excused()) > 0 {
				t.Errorf("with confirmed replicas found %v, want %d", found, c.lost)
			}
		})
	}
}

// A run shows nothing if a promoted server did not answer the lab, or if a replica did not for long.
func TestUnsurePromotions(t *testing.T) {
	play := failedOver{[]deadline{{"x", 21 * ms, 121 * ms}}, nil, []history.Op{stored("a", "x", 20*ms)}}
	r := play.run(t, "holdfast-sentinel-replicas")
	if err := r.roles.unsure(); err != nil {
		t.Error(err)
	}
	r.roles.all[0].unread = context.DeadlineExceeded
	if err := r.roles.unsure(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("not read: %v", err)
	}
	r.roles.all[0].unread, r.roles.gaps = nil, []error{context.Canceled}
	if err := r.roles.unsure(); !errors.Is(err, context.Canceled) {
		t.Errorf("not seen for long: %v", err)
	}
}

// Of a run that was cut short the records are not judged, nor what they may excuse.
func TestCutShort(t *testing.T) {
	a := stored("a", "x", 20*ms)
	for subject, kept := range map[string]int{"holdfast-sentinel-replicas": 2, "holdfast-sentinel": 1} {
		play := failedOver{[]deadline{{"x", 21 * ms, 121 * ms}}, nil, []history.Op{a}}
		r := play.run(t, subject, fault.Fault{Kind: fault.Failover, Target: "node1", At: fault.After(0)})
		r.ops = newOperator(r)
		r.rec.Add(a)
		r.violations = []check.Violation{{Check: "errors"}, {Check: "overlap"}}
		if found := r.result(time.Now(), false).Violations; len(found) != kept {
			t.Errorf("%s, cut short: %v", subject, found)
		}
		if found := r.result(time.Now(), true).Violations; len(found) <= kept {
			t.Errorf("%s, whole: %v", subject, found)
		}
	}
}

// A replica that does not answer for long may have been promoted; a master that does not is none, or still one.
func TestGapsBetweenLooks(t *testing.T) {
	for _, role := range []string{"slave", master} {
		o := failedOver{}.run(t, "holdfast-sentinel").roles
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // nobody answers
		ctx, cancel := context.WithTimeout(t.Context(), longestLook+100*ms)
		o.look(ctx, c, role, promotion{})
		cancel()
		_ = c.Close()
		if got := o.unsure(); (got != nil) != (role != master) {
			t.Errorf("%s: %v", role, got)
		}
	}
}

// A server that does not answer for a resource may have a lease of it.
func TestLeasesOfASilentServer(t *testing.T) {
	server := redistest.Start(t)
	c := server.Client(func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, 100*ms })
	o := failedOver{}.run(t, "holdfast-sentinel").roles
	o.run.prefix = "p"
	ctx := t.Context()
	if err := c.HSet(ctx, "p:{r}", "holder", "x", "deadline", epoch.Add(time.Second).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	key := leaseKey{"r", "x"}
	if had, err := o.leases(ctx, c); err != nil || had[key] == 0 {
		t.Errorf("%v, %v", had, err)
	}
	if err := c.Set(ctx, "p:{r}", "not a hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if had, err := o.leases(ctx, c); err == nil {
		t.Errorf("refused: %v", had)
	}
	server.Pause()
	defer server.Resume()
	if had, err := o.leases(ctx, c); err == nil {
		t.Errorf("of a stopped server: %v", had)
	}
}

// What an observer saw before clients knew the new master is of no account, with confirmed replicas too: reads are not confirmed.
func TestTermsOverAFailover(t *testing.T) {
	seen := func(at time.Duration) history.Op {
		return history.Op{Client: "a", Kind: history.Seen, Resource: "r", Call: at, Return: at, Outcome: history.OK, Token: uint64(at)}
	}
	ops := []history.Op{seen(30 * ms), seen(70 * ms), seen(71 * ms)} // the new master is known at 70 ms
	failover := fault.Fault{Kind: fault.Failover, Target: "node1", At: fault.After(0)}
	for _, subject := range []string{"holdfast-sentinel", "holdfast-sentinel-replicas"} {
		if got := (failedOver{}).run(t, subject, failover).seenSince(ops); len(got) != 1 || got[0].Return != 71*ms {
			t.Errorf("%s: %v", subject, got)
		}
	}
	if got := (&run{}).seenSince(ops); len(got) != len(ops) {
		t.Errorf("without replicas: %v", got)
	}
}

// A part of a Multi, of which the client does not state the ID, is known by its token.
func TestPartsOverAFailover(t *testing.T) {
	a := stored("a", "", 20*ms)
	r := failedOver{old: []deadline{{"x", 21 * ms, 121 * ms}}}.run(t, "holdfast-sentinel", fault.Fault{Kind: fault.Failover, Target: "node1", At: fault.After(0)})
	ops := []history.Op{a, stored("b", "y", 61*ms)}
	r.identify(ops)
	if over := r.overFailovers(ops); len(over.lost) != 1 {
		t.Errorf("%d lost, want the one that the replica never had", len(over.lost))
	}
}

func renewedUntil(op history.Op, until time.Duration) history.Op {
	op.Call, op.Return, op.Until = 400*ms, 400*ms, until
	return op
}

// What the servers did before and after a promotion is compared with the windows of that time only.
func TestReigns(t *testing.T) {
	before, after := stored("a", "x", 2*ms), stored("b", "y", 70*ms)
	before.Until = 40 * ms
	play := failedOver{[]deadline{{"x", 3 * ms, 103 * ms}}, []deadline{{"y", 71 * ms, 171 * ms}}, []history.Op{before, after}}
	r := play.run(t, "holdfast-sentinel")
	if n, found := r.judgeReigns(play.ops, failovers{}); n != 2 || len(found) > 0 {
		t.Errorf("%d windows, %v", n, found)
	}
	late := play
	late.fresh = []deadline{{"y", 71 * ms, 130 * ms}}
	if _, found := late.run(t, "holdfast-sentinel").judgeReigns(late.ops, failovers{}); len(found) != 1 {
		t.Errorf("a window beyond the deadline of the new master: %v", found)
	}
	if _, found := late.run(t, "holdfast-sentinel").judgeReigns(late.ops, failovers{lost: []uncovered{{acquire: after}}}); len(found) != 0 {
		t.Errorf("a lease that a failover lost: %v", found)
	}
}
