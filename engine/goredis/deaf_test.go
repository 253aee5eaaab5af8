package goredis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A waiter whose process is gone, as the server sees by its subscription, delays nobody. It keeps its
// place for as long as it may still come back.
func TestReleasePassesAWaiterThatIsGone(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.Client())
	dead := open(t, server.Client())
	stream, err := dead.Listen(t.Context(), prefix, "c2", func(engine.Wakeup) {})
	must(t, err)
	wakes := listen(t, e, "c3")
	held := hold(t, e, request("c1.a"))
	first, second := request("c2.b"), request("c3.c")
	wait := func(r engine.Request, ahead int) {
		t.Helper()
		if got, err := e.Acquire(t.Context(), r); err != nil || got.Status != engine.Queued || got.Position != ahead {
			t.Fatalf("%+v, %v; want queued behind %d", got, err, ahead)
		}
	}
	wait(first, 0)
	wait(second, 1)
	must(t, stream.Close())
	for channel := prefix + ":wake:c2"; server.Client().PubSubNumSub(t.Context(), channel).Val()[channel] > 0; { // until the server has seen it
		must(t, t.Context().Err())
	}
	start := time.Now()
	release(t, e, first.Resource, held)
	w := next(t, wakes, engine.WakeGrant)
	t.Logf("granted %v after the release", time.Since(start))
	wait(first, 0) // it is alive after all, and does not listen
	release(t, e, first.Resource, engine.Held{ID: second.ID, Token: w.Token})
	if got, err := e.Acquire(t.Context(), first); err != nil || got.Status != engine.Granted {
		t.Errorf("%+v, %v; want it granted", got, err)
	}
}

// Without the right to call PUBSUB it is not known who is gone, and the front is granted as ever.
func TestReleaseWithoutTheRightToLook(t *testing.T) {
	server := redistest.Start(t)
	must(t, server.Client().Do(t.Context(), "acl", "setuser", "default", "-pubsub").Err())
	e := open(t, server.Client())
	wakes := listen(t, e, "c2")
	held := hold(t, e, request("c1.a"))
	r := request("c2.b")
	if got, err := e.Acquire(t.Context(), r); err != nil || got.Status != engine.Queued {
		t.Fatalf("%+v, %v; want queued", got, err)
	}
	release(t, e, r.Resource, held)
	next(t, wakes, engine.WakeGrant)
}

// A release looks for a waiter that can be reached among no more than a portion of those that are gone.
func TestReleaseLooksAtFewWaitersThatAreGone(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	stream, err := open(t, server.Client()).Listen(t.Context(), prefix, "c2", func(engine.Wakeup) {})
	must(t, err)
	held := hold(t, e, request("c1.a"))
	for i := range 4 * queue.DefaultPortion {
		if got, err := e.Acquire(t.Context(), request(fmt.Sprint("c2.w", i))); err != nil || got.Status != engine.Queued {
			t.Fatalf("%+v, %v; want queued", got, err)
		}
	}
	must(t, stream.Close())
	for channel := prefix + ":wake:c2"; rdb.PubSubNumSub(t.Context(), channel).Val()[channel] > 0; { // until the server has seen it
		must(t, t.Context().Err())
	}
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	release(t, e, request("c2.w0").Resource, held)
	stats := rdb.Info(t.Context(), "commandstats").Val()
	var looks int
	for line := range strings.Lines(stats) {
		if after, ok := strings.CutPrefix(line, "cmdstat_pubsub|numsub:calls="); ok {
			fmt.Sscan(strings.SplitN(after, ",", 2)[0], &looks)
		}
	}
	if looks < queue.DefaultPortion/2 || looks > queue.DefaultPortion+1 {
		t.Errorf("a release looked at %d waiters that are gone, want about %d", looks, queue.DefaultPortion)
	}
	snap, err := e.Snapshot(t.Context(), request("c2.w0").Resource)
	if must(t, err); len(snap.Holders) != 1 || snap.Holders[0].ID != "c2.w0" {
		t.Errorf("holders: %+v; want the front, whose claim window runs", snap.Holders)
	}
}

// A waiter whose client does not listen is not taken for one that has stopped: it is not passed. Once it listens, the
// script is not asked to look, which costs a command of the server for each waiter.
func TestOnlyAClientThatMayNotListenIsLookedAt(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	e := open(t, rdb)
	looks := func() bool {
		return strings.Contains(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_pubsub|numsub:")
	}
	wait := func(id string) {
		t.Helper()
		if got, err := e.Acquire(t.Context(), request(id)); err != nil || got.Status != engine.Queued {
			t.Fatalf("%+v, %v; want queued", got, err)
		}
	}
	held := hold(t, e, request("c1.a"))
	listen(t, e, "c2")
	wait("c3.a") // does not listen
	if !looks() {
		t.Error("the script did not look whether a client listens that does not")
	}
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	wait("c2.a")
	if looks() {
		t.Error("the script looked whether a client listens that does")
	}
	release(t, e, request("c1.a").Resource, held)
	snap, err := e.Snapshot(t.Context(), request("c3.a").Resource)
	if must(t, err); len(snap.Holders) != 1 || snap.Holders[0].ID != "c3.a" {
		t.Errorf("holders: %+v; want the waiter that does not listen, which is not passed", snap.Holders)
	}
}
