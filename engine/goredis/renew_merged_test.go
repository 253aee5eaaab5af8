package goredis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Many renewals are few calls, and each lease gets its own answer: those that are
// held, are waited for, are shared, were released, or have a foreign key.
func TestRenewalsTogether(t *testing.T) {
	const leases = 3*64 + 7
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	var all []engine.Renewal
	for i := range leases {
		r := request(fmt.Sprintf("c1.%d", i))
		if i%7 == 0 {
			r.ID += " of two words" // an ID may be any text
		}
		r.Resource, r.TTL = named(fmt.Sprint("{order}:", i)), 30*time.Second
		if i%5 == 3 {
			r.Kind, r.Capacity = engine.KindSemaphore, 3
		}
		held := hold(t, e, r)
		switch i % 5 {
		case 1:
			next := r
			next.ID = fmt.Sprintf("c2.%d", i)
			wait(t, e, next)
		case 2:
			release(t, e, r.Resource, held)
		case 4:
			must(t, rdb.Del(t.Context(), core(r.Resource)).Err())
			if i%2 == 0 {
				must(t, rdb.Set(t.Context(), core(r.Resource), "foreign", time.Minute).Err())
			}
		}
		ttl := time.Minute
		if i > leases/2 {
			ttl *= 2
		}
		all = append(all, engine.Renewal{Resource: r.Resource, Held: held, TTL: ttl})
	}
	must(t, rdb.ScriptFlush(t.Context()).Err())
	for round := range 2 {
		must(t, rdb.ConfigResetStat(t.Context()).Err())
		for i, err := range e.Renew(t.Context(), all) {
			var gone *engine.NotHeldError
			switch {
			case i%5 == 0 || i%5 == 1 || i%5 == 3:
				if err != nil {
					t.Errorf("lease %d: %v", i, err)
				}
			case i%5 == 2:
				if !errors.As(err, &gone) || gone.Cause != engine.CauseReleased {
					t.Errorf("lease %d was released: %v", i, err)
				}
			case i%2 == 0:
				if !errors.Is(err, engine.ErrDenied) {
					t.Errorf("lease %d has a foreign key: %v", i, err)
				}
			default:
				if !errors.As(err, &gone) || gone.Cause != engine.CauseDeleted {
					t.Errorf("lease %d was deleted: %v", i, err)
				}
			}
		}
		for i := range leases {
			if i%5 != 0 && i%5 != 1 && i%5 != 3 {
				continue
			}
			snap, err := e.Snapshot(t.Context(), all[i].Resource)
			if err != nil || len(snap.Holders) != 1 || snap.Holders[0].TTL < all[i].TTL-10*time.Second {
				t.Fatalf("round %d: lease %d: %+v, %v", round, i, snap, err)
			}
		}
	}
}

func core(r engine.Resource) string {
	return r.Prefix + ":{" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(r.Name) + "}"
}

// renewAll renews leases that are held, and returns by how many calls.
func renewAll(t *testing.T, e *goredis.Engine, rdb *redis.Client, all []engine.Renewal) int {
	t.Helper()
	e.Settle() // the calls in the background that remove dead waiters
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	for i, err := range e.Renew(t.Context(), all) {
		if err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	return commandCounts(t, rdb)["evalsha"]
}

// Leases of a mutex are renewed by a call for 64 of them, and those that others
// wait for are among them.
func TestRenewalsShareCalls(t *testing.T) {
	const leases = 640
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	var all []engine.Renewal
	for i := range leases {
		r := request(fmt.Sprintf("c1.%d", i))
		r.Resource = named(fmt.Sprint("order:", i))
		all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
		if i%9 == 0 {
			next := r
			next.ID = fmt.Sprintf("c2.%d", i)
			wait(t, e, next)
		}
	}
	calls := func() int { return renewAll(t, e, rdb, all) }
	calls() // the script is not known yet
	// Once in a spell each lease that others wait for has a call of its own, and may have one in the
	// background that removes dead waiters. Two counts are not both at the end of one.
	if n := min(calls(), calls()); n != leases/64 {
		t.Errorf("%d leases were renewed by %d calls, want %d", leases, n, leases/64)
	}
}

// The expiry of leases that are renewed together is moved in the same calls. Those that others wait for, and those
// that have a tombstone, have a call of their own.
func TestRenewalsMoveTheExpiryTogether(t *testing.T) {
	const leases, ttl = 256, 20 * time.Minute // longer than the expiry of a lease that was just granted
	rdb := redistest.Start(t).Client()
	e := open(t, rdb)
	var all []engine.Renewal
	for i := range leases {
		r := request(fmt.Sprintf("c1.%d", i))
		r.Resource = named(fmt.Sprint("order:", i))
		all = append(all, engine.Renewal{Resource: r.Resource, Held: hold(t, e, r), TTL: r.TTL})
		switch i {
		case 3:
			next := r
			next.ID = "c2.waits"
			wait(t, e, next)
		case 5:
			must(t, e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: "c2.withdrawn"}, Withdraw: true}))
		}
	}
	renewAll(t, e, rdb, all) // the script is known now
	for i := range all {
		all[i].TTL = ttl
	}
	before := rdb.PTTL(t.Context(), core(all[0].Resource)).Val()
	if n := renewAll(t, e, rdb, all); n > leases/64+leases/16 { // some that remove dead waiters may be among them
		t.Errorf("%d leases were renewed by %d calls, want about %d", leases, n, leases/64+2)
	}
	for i := range all {
		if left := rdb.PTTL(t.Context(), core(all[i].Resource)).Val(); before > ttl || left < ttl+10*time.Minute {
			t.Fatalf("the keys of lease %d expire in %v, before in %v", i, left, before)
		}
	}
}
