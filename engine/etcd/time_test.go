package etcd_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const shortTTL = time.Second

// A holder that is never renewed is passed over a TTL after another engine has seen its lease, not
// before, whatever the engine that granted it does.
func TestDeadHolderIsTimedByWhoWaits(t *testing.T) {
	t.Parallel()
	a, b := etcd.New(single(t)), etcd.New(single(t))
	sent := time.Now()
	first := hold(t, a, request(t, "a.1", shortTTL))
	second := awaitGrant(t, b, request(t, "b.1", shortTTL))
	if after := time.Since(sent); after < shortTTL {
		redistest.Broken(t, "granted %v after a grant for %v", after, shortTTL)
	}
	if second.Token <= first.Token {
		redistest.Broken(t, "token %d after %d", second.Token, first.Token)
	}
	wantError(t, "renewing what has expired", renew(t, a, first, shortTTL), "")
}

// An engine that has never seen a resource waits for a whole TTL, however long ago its holder died.
func TestStrangerWaitsForAWholeTTL(t *testing.T) {
	t.Parallel()
	a, b := etcd.New(single(t)), etcd.New(single(t))
	hold(t, a, request(t, "a.1", shortTTL))
	<-time.After(2 * shortTTL) // the holder is dead
	sight := time.Now()
	awaitGrant(t, b, request(t, "b.1", shortTTL))
	if after := time.Since(sight); after < shortTTL {
		redistest.Broken(t, "granted %v after the first sight of a lease of %v", after, shortTTL)
	}
}

// A holder that is renewed is never passed over, although the one who waits has known its lease for
// longer than its TTL.
func TestRenewedHolderIsNotPassedOver(t *testing.T) {
	t.Parallel()
	a, b := etcd.New(single(t)), etcd.New(single(t))
	held := hold(t, a, request(t, "a.1", shortTTL))
	for range 10 {
		sent := time.Now()
		if err := renew(t, a, held, shortTTL); err != nil {
			t.Fatalf("renewing: %v", err)
		}
		for time.Since(sent) < shortTTL/3 {
			answer, err := b.Acquire(within(t, waitTimeout), request(t, "b.1", shortTTL))
			must(t, err)
			if answer.Status == engine.Granted && time.Since(sent) < shortTTL {
				redistest.Broken(t, "granted %v after a renewal for %v", time.Since(sent), shortTTL)
			}
		}
	}
	release(t, a, held)
	awaitGrant(t, b, request(t, "b.1", shortTTL))
}
