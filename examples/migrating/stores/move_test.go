package stores

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

var database = sqlservers.Share(sqlservers.LaunchPostgreSQL)

func TestMain(m *testing.M) {
	code := m.Run()
	database.Stop()
	os.Exit(code)
}

// release is what the members of a fleet run.
type release uint8

const (
	before release = iota
	between
	after
)

func (r release) String() string { return [...]string{"before", "between", "after"}[r] }

// move is a fleet that moves from one store to another.
type move struct {
	t      *testing.T
	server *redistest.Server
	pool   *pgxpool.Pool
	nested bool

	inside  atomic.Int32
	tokens  [2]atomic.Uint64 // the last one; if nested, of each store
	members []*member
}

// member is a process of the fleet, with clients of its own.
type member struct {
	runs  release
	turns atomic.Int32
	stop  func() // returns when it has ended
}

func newMove(t *testing.T, nested bool) *move {
	m := &move{t: t, server: redistest.Start(t), nested: nested}
	m.pool = newPool(t)
	return m
}

func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	admin, err := pgxpool.New(t.Context(), database.Get(t).DSN(""))
	requireNil(t, err)
	defer admin.Close()
	name := "test" + time.Now().Format("150405000000")
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	requireNil(t, err)
	pool, err := pgxpool.New(t.Context(), database.Get(t).DSN(name))
	requireNil(t, err)
	t.Cleanup(pool.Close)
	requireNil(t, postgres.Migrate(t.Context(), pool))
	return pool
}

// client returns the client of a release, which has connections to Redis of its own.
func (m *move) client(r release) *holdfast.Client {
	m.t.Helper()
	var c *holdfast.Client
	var err error
	switch r {
	case before:
		c, err = Before(m.server.Client())
	case between:
		c, err = Between(m.server.Client(), m.pool)
	case after:
		c, err = After(m.pool)
	}
	requireNil(m.t, err)
	return c
}

// start begins a member.
func (m *move) start(r release) *member {
	x := &member{runs: r}
	var clients []*holdfast.Client
	if m.nested && r == between {
		clients = []*holdfast.Client{m.client(before), m.client(after)}
	} else {
		clients = []*holdfast.Client{m.client(r)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			held, err := m.turn(ctx, clients, r)
			if err != nil && ctx.Err() == nil {
				m.t.Errorf("%v: %v", r, err)
			}
			x.turns.Add(1)
			<-time.After(rand.N(40*time.Millisecond) + 8*held) // so that the lock is free at times, however slow the machine
		}
		for _, c := range clients {
			if err := c.Close(); err != nil {
				m.t.Errorf("%v: close: %v", r, err)
			}
		}
	})
	x.stop = func() {
		cancel()
		running.Wait()
	}
	return x
}

// turn locks and checks what is promised, and returns for how long it held the lock. Nested, the
// tokens are those of two stores.
func (m *move) turn(ctx context.Context, clients []*holdfast.Client, r release) (held time.Duration, err error) {
	entered := time.Now()
	defer func() { held = time.Since(entered) }()
	work := func(_ context.Context, old, next *holdfast.Lease) error {
		entered = time.Now()
		if m.inside.Add(1) != 1 {
			redistest.Broken(m.t, "%v: two are inside at once", r)
		}
		defer m.inside.Add(-1)
		for i, lease := range []*holdfast.Lease{old, next} {
			if lease == nil {
				continue
			}
			if last := m.tokens[i].Swap(lease.Token()); last >= lease.Token() {
				redistest.Broken(m.t, "%v: token %d after %d", r, lease.Token(), last)
			}
		}
		<-time.After(rand.N(2 * time.Millisecond))
		return nil
	}
	first := clients[0].Mutex("stock:42")
	if len(clients) == 2 {
		return 0, Nested(ctx, first, clients[1].Mutex("stock:42"), work)
	}
	return 0, first.Do(ctx, func(ctx context.Context) error {
		lease := holdfast.LeaseFromContext(ctx)
		if m.nested && r == after {
			return work(ctx, nil, lease)
		}
		return work(ctx, lease, nil)
	})
}

// awaitTurns waits until every member has had a few more turns.
func (m *move) awaitTurns() {
	m.t.Helper()
	const more = 2
	var was []int32
	for _, x := range m.members {
		was = append(was, x.turns.Load())
	}
	redistest.Await(m.t, 60*time.Second, "turns of every member", func() bool {
		for i, x := range m.members {
			if x.turns.Load() < was[i]+more {
				return false
			}
		}
		return true
	})
}

// roll replaces the members by those of another release, one after the other, under load.
func (m *move) roll(to release) {
	for i, old := range m.members {
		old.stop()
		m.members[i] = m.start(to)
		m.awaitTurns()
	}
}

// A fleet is rolled from one store to the other, by the release in between, and back. At no
// instant are there two holders, and tokens rise.
func TestMoveUnderLoad(t *testing.T) {
	for name, nested := range map[string]bool{"Between": false, "Nested": true} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t, nested)
			for range 3 {
				m.members = append(m.members, m.start(before))
			}
			defer func() {
				for _, x := range m.members {
					x.stop()
				}
			}()
			m.awaitTurns()
			for _, to := range []release{between, after, between, before} {
				m.roll(to)
			}
		})
	}
}

// Work that one release has done is not done again by the next one, or the one before.
func TestWorkIsDoneOnceInAMove(t *testing.T) {
	m := newMove(t, false)
	var clients []*holdfast.Client
	for _, r := range []release{before, between, after} {
		c := m.client(r)
		defer c.Close()
		clients = append(clients, c)
	}
	for _, pair := range [][2]release{{before, between}, {between, before}, {between, after}, {after, between}} {
		id := pair[0].String() + " " + pair[1].String()
		for i, r := range pair {
			ran, err := clients[r].Once(t.Context(), id, time.Hour, func(context.Context) error { return nil })
			requireNil(t, err)
			if ran != (i == 0) {
				redistest.Broken(t, "%s: %v ran: %v", id, r, ran)
			}
		}
	}
}

func requireNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
