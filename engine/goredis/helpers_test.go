package goredis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const prefix = "p"

// named is a resource of the tests.
func named(name string) engine.Resource { return engine.Resource{Prefix: prefix, Name: name} }

// request is one for a mutex.
func request(id string) engine.Request {
	return engine.Request{
		Resource: named("stock:42"), ID: id, Kind: engine.KindMutex,
		Capacity: 1, Weight: 1, TTL: 15 * time.Second, Queue: true,
	}
}

// shared is one for a semaphore of capacity 3.
func shared(id string, weight int) engine.Request {
	r := request(id)
	r.Resource.Name, r.Kind, r.Capacity, r.Weight = "pool", engine.KindSemaphore, 3, weight
	return r
}

// open makes an engine that the test leaves in the end.
func open(t testing.TB, rdb redis.UniversalClient, opts ...goredis.Option) *goredis.Engine {
	t.Helper()
	e := goredis.New(rdb, opts...)
	t.Cleanup(func() { e.Leave("nobody") })
	return e
}

// hold acquires and must be granted.
func hold(t testing.TB, e engine.Engine, r engine.Request) engine.Held {
	t.Helper()
	a, err := e.Acquire(context.Background(), r)
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
	return engine.Held{ID: r.ID, Token: a.Token}
}

// wait acquires and must be queued.
func wait(t testing.TB, e engine.Engine, r engine.Request) {
	t.Helper()
	a, err := e.Acquire(context.Background(), r)
	if err != nil || a.Status != engine.Queued {
		t.Fatalf("Acquire: %+v, %v", a, err)
	}
}

func release(t testing.TB, e engine.Engine, res engine.Resource, h engine.Held) {
	t.Helper()
	if err := e.Release(context.Background(), engine.Release{Resource: res, Held: h}); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func renew(e engine.Engine, ctx context.Context, res engine.Resource, h engine.Held) error {
	return e.Renew(ctx, []engine.Renewal{{Resource: res, Held: h, TTL: 15 * time.Second}})[0]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless err is all of the targets.
func wantError(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: got error %v, want one that is %v", what, err, target)
		}
	}
}

// wantCause fails the test unless err says that nothing is held for that cause.
func wantCause(t testing.TB, what string, err error, cause engine.Cause) {
	t.Helper()
	if not, ok := errors.AsType[*engine.NotHeldError](err); !ok || not.Cause != cause {
		t.Errorf("%s: got error %v, want cause %v", what, err, cause)
	}
}

// calls makes one call of each kind and returns their errors by name.
func calls(ctx context.Context, e engine.Engine, r engine.Request) map[string]error {
	errs := map[string]error{}
	_, errs["Acquire"] = e.Acquire(ctx, r)
	errs["Renew"] = renew(e, ctx, r.Resource, engine.Held{ID: r.ID, Token: 1})
	errs["Release"] = e.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: 1}})
	errs["ReleaseBatch"] = e.(engine.BatchReleaser).ReleaseBatch(ctx, []engine.Release{{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: 1}}})[0]
	errs["Resize"] = e.Resize(ctx, r.Resource, engine.Held{ID: r.ID, Token: 1}, 1)
	errs["Break"] = e.Break(ctx, r.Resource, engine.Break{ID: r.ID})
	_, errs["Snapshot"] = e.Snapshot(ctx, r.Resource)
	_, errs["Peek"] = e.Peek(ctx, r.Resource)
	return errs
}

// listen opens the stream of wake-ups of one client.
func listen(t testing.TB, e engine.Engine, client string) <-chan engine.Wakeup {
	t.Helper()
	wakes := make(chan engine.Wakeup, 100)
	l, err := e.Listen(t.Context(), prefix, client, func(w engine.Wakeup) { wakes <- w })
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(func() {
		must(t, l.Close())
		e.Leave(client)
	})
	return wakes
}

// next waits for a wake-up of a kind and drops others.
func next(t testing.TB, wakes <-chan engine.Wakeup, kind engine.WakeupKind) engine.Wakeup {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case w := <-wakes:
			if w.Kind == kind {
				return w
			}
		case <-limit:
			t.Fatalf("no wake-up of kind %v came", kind)
		}
	}
}
