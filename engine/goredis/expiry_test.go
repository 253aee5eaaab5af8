package goredis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A name that is locked once costs the server at most half of the bytes times seconds
// that it cost when its core had all fields and was kept for two retentions.
func TestNameUsedOnceCostsHalf(t *testing.T) {
	const retention = 10 * time.Minute // the default
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	r := request("e0jlejm605ffu.4vpmv33ekme9") // as long as those of a client
	r.Resource.Name = "order:00000001"
	r.Reserve = 16
	release(t, e, r.Resource, hold(t, e, r))

	const core, before = "p:{order:00000001}", "p:{order:00000002}"
	rows := rdb.HGetAll(t.Context(), core).Val()
	must(t, rdb.HSet(t.Context(), before, // what commit 42e545b stored: 264 bytes on Redis 7.0.15, for 1200 s
		"deadline", "mutex:1", "token", rows["token"], "keep", rows["keep"], "ended", 0, "holder", r.ID, "easy", "mutex:1",
		"note", "16 0 ", "queued", 0, "tail", 0, "kind", "mutex:1", "used", 1, "birth", rows["birth"]).Err())
	bytes := func(key string) float64 { return float64(rdb.MemoryUsage(t.Context(), key, 0).Val()) }
	lives := rdb.PTTL(t.Context(), core).Val()
	if got, limit := bytes(core)*lives.Seconds(), bytes(before)*(2*retention).Seconds()/2; got > limit {
		t.Errorf("%.0f bytes for %v are %.0f byte-seconds, want at most %.0f, half of %.0f bytes for %v",
			bytes(core), lives, got, limit, bytes(before), 2*retention)
	}
	if n := rdb.DBSize(t.Context()).Val(); n != 2 {
		t.Errorf("the name has %d keys, want its core alone", n-1)
	}
}

// A figure that operators are given: many names that were each locked once take so many bytes
// for each, and expire so soon.
func TestManyNamesUsedOnce(t *testing.T) {
	n := redistest.Scale(2_000, 100_000)
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	use := func(name string) engine.Resource {
		r := request("e0jlejm605ffu.4vpmv33ekme9")
		r.Resource.Name = name
		release(t, e, r.Resource, hold(t, e, r))
		return r.Resource
	}
	use("first")
	before := usedMemory(t, rdb)
	for i := range n {
		use(fmt.Sprintf("order:%08d", i))
	}
	each := float64(usedMemory(t, rdb)-before) / float64(n)
	t.Logf("%d names cost %.0f bytes each", n, each)
	if each > 400 {
		t.Errorf("a name costs %.0f bytes, want 400 at most", each)
	}
	keys, err := server.Keys(t.Context())
	must(t, err)
	for _, k := range keys {
		if limit := 15*time.Second + 10*time.Minute*11/10; k.TTL > limit {
			t.Fatalf("key %q lives for %v, want %v at most: the TTL and 1.1 retentions", k.Name, k.TTL, limit)
		}
	}
}

func usedMemory(t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), "memory").Result()
	must(t, err)
	n, err := strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	must(t, err)
	return n
}

// instant is a Redis whose scripts read the time from a key.
type instant struct {
	*testing.T
	*goredis.Engine
	rdb *redis.Client
	now time.Time
}

// start begins in 2100, so that no key expires by the server's own clock.
func start(t *testing.T) *instant {
	rdb := redistest.Start(t).Client()
	i := &instant{t, open(t, rdb, goredis.WithFragments(virtual())), rdb, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	i.pass(0)
	return i
}

func (i *instant) pass(d time.Duration) {
	i.now = i.now.Add(d)
	must(i.T, i.rdb.Set(i.Context(), "virtual:now", i.now.UnixMicro(), 0).Err())
}

// kept is how long the keys of a resource last from now on.
func (i *instant) kept(core string) time.Duration {
	keep, err := i.rdb.HGet(i.Context(), core, "keep").Int64()
	must(i.T, err)
	return time.UnixMicro(keep).Sub(i.now)
}

// The longer a resource has been in use, the longer it is kept beyond the retention
// after its last deadline: at most for a sixteenth of the retention and four times its
// age, and never for more than two retentions in all.
func TestExpiryGrowsWithUse(t *testing.T) {
	const retention, ttl, core = 10 * time.Minute, 15 * time.Second, "p:{stock:42}"
	uses := map[string]func(i *instant, n int){
		"again and again": func(i *instant, n int) {
			release(i.T, i, named("stock:42"), hold(i.T, i, request("c1."+strconv.Itoa(n))))
		},
		"with another that waits": func(i *instant, n int) {
			a, b := request("c1."+strconv.Itoa(n)), request("c2."+strconv.Itoa(n))
			held := hold(i.T, i, a)
			wait(i.T, i, b)
			release(i.T, i, a.Resource, held)
			release(i.T, i, a.Resource, engine.Held{ID: b.ID, Token: held.Token + 1})
		},
		"held and renewed": func(i *instant, n int) {
			if n == 0 {
				hold(i.T, i, request("c1.a"))
			}
			must(i.T, renew(i, i.Context(), named("stock:42"), engine.Held{ID: "c1.a"}))
		},
		"many held and renewed": func(i *instant, n int) {
			all := make([]engine.Renewal, 8)
			for j := range all {
				r := request("c1." + strconv.Itoa(j))
				if j > 0 {
					r.Resource.Name = strconv.Itoa(j)
				}
				if n == 0 {
					hold(i.T, i, r)
				}
				all[j] = engine.Renewal{Resource: r.Resource, Held: engine.Held{ID: r.ID}, TTL: ttl}
			}
			for _, err := range i.Renew(i.Context(), all) {
				must(i.T, err)
			}
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			i := start(t)
			for n := range 400 { // more than half an hour
				use(i, n)
				age := time.Duration(n) * 5 * time.Second
				limit := min(ttl+retention+retention/16+max(retention/64, 4*age), ttl+2*retention)
				if got := i.kept(core); got < ttl+retention || got > limit {
					t.Fatalf("%v old, it is kept for %v, want %v to %v", age, got, ttl+retention, limit)
				}
				i.pass(5 * time.Second)
			}
		})
	}
}

// A name that was used once has no token twice, whether its keys have just expired when
// it is used again, or are about to; and a late copy of a request of its first use does no harm.
func TestTokensRiseWhenANameIsForgotten(t *testing.T) {
	const core = "p:{stock:42}"
	for name, late := range map[string]time.Duration{
		"just before": -time.Microsecond, "when they expire": 0, "just after": time.Microsecond,
	} {
		for _, ballot := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("%s, ballot %v ahead", name, ballot), func(t *testing.T) {
				i := start(t)
				first := request("c1.a")
				first.Reserve = 64
				if ballot > 0 {
					first.Ballot = uint64(i.now.Add(ballot).UnixMicro())
				}
				held := hold(t, i, first)
				release(t, i, first.Resource, held)
				last := held.Token + first.Reserve
				i.pass(i.kept(core) + late)
				if late >= 0 {
					must(t, i.rdb.Del(t.Context(), core, core+":line").Err()) // as Redis does
				}
				for _, stale := range []uint64{held.Token, last} {
					r := request("c2.stale")
					r.Ballot = stale
					if a, err := i.Acquire(t.Context(), r); err != nil || a.Status != engine.Outbid {
						t.Errorf("ballot %d, that was given: got %+v, %v, want it outbid", stale, a, err)
					}
				}
				again := hold(t, i, request("c2.b"))
				if again.Token <= last {
					t.Errorf("got token %d after %d", again.Token, last)
				}
				err := i.Release(t.Context(), engine.Release{Resource: first.Resource, Held: held})
				if late >= 0 {
					wantCause(t, "late copy of a release", err, engine.CauseDeleted)
				} else {
					must(t, err)
				}
				must(t, renew(i, t.Context(), first.Resource, again))
			})
		}
	}
}

// A newcomer that fits beside the others ends those that have expired, so that they do not pile up
// beside one that lasts.
func TestANewcomerEndsExpiredLeases(t *testing.T) {
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	r := shared("c1.1", 1)
	r.Capacity = 1000
	hold(t, e, r)
	for i := range 3 {
		short := r
		short.ID, short.TTL = fmt.Sprint("c2.", i), 100*time.Millisecond
		hold(t, e, short)
	}
	<-time.After(200 * time.Millisecond) // longer than their TTL
	r.ID = "c3.1"
	hold(t, e, r)
	for field := range rdb.HGetAll(t.Context(), "p:{pool}").Val() {
		if strings.HasPrefix(field, "@c2.") {
			t.Errorf("the core still has %q", field)
		}
	}
	if used := rdb.HGet(t.Context(), "p:{pool}", "used").Val(); used != "2" {
		t.Errorf("%s units are used, want 2", used)
	}
}
