package migrating

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/holdfast-go/holdfast"
	engine "github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// oldTTL is the TTL of the old locks.
const oldTTL = 3 * time.Second

// olds makes locks of each library, with a connection of their own each.
func olds(t *testing.T, server *redistest.Server) map[string]func() OldLock {
	return map[string]func() OldLock{
		"redsync": func() OldLock {
			rs := redsync.New(goredis.NewPool(server.Client()))
			return OldRedsync{rs.NewMutex("stock:42", redsync.WithExpiry(oldTTL), redsync.WithTries(1<<20), redsync.WithRetryDelay(5*time.Millisecond))}
		},
		"redislock": func() OldLock {
			return &OldRedislock{Client: redislock.New(server.Client()), Key: "stock:42", TTL: oldTTL}
		},
		"rueidislock": func() OldLock {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
				KeyMajority:  1, NoLoopTracking: true, KeyValidity: oldTTL, TryNextAfter: time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(locker.Close)
			return &OldRueidislock{Rueidis: locker, Name: "stock:42"}
		},
	}
}

// In a fleet that changes over, old clients have the old lock, clients of the
// release between have both, and no two are inside at once.
func TestOldAndNewClientsExcludeEachOther(t *testing.T) {
	server := redistest.Start(t)
	for name, old := range olds(t, server) {
		t.Run(name, func(t *testing.T) {
			var inside, turns atomic.Int32
			work := func(context.Context) error {
				if inside.Add(1) != 1 {
					t.Error("two are inside at once")
				}
				turns.Add(1)
				inside.Add(-1)
				return nil
			}
			const clients, each = 3, 3
			var all sync.WaitGroup
			for range clients {
				lock := old()
				all.Go(func() {
					for range each {
						if err := lock.Lock(t.Context()); err != nil {
							t.Error(err)
							return
						}
						_ = work(t.Context())
						if err := lock.Unlock(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
				client, alongside := newClient(t, server), old()
				all.Go(func() {
					for range each {
						if err := Both(t.Context(), client.Mutex("stock:42"), alongside, oldTTL/3, work); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if turns.Load() != 2*clients*each {
				t.Errorf("%d turns, want %d", turns.Load(), 2*clients*each)
			}
		})
	}
}

// The loss of the old lock ends the work, and Both says so.
func TestLossOfTheOldLockEndsTheWork(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	for name, old := range olds(t, server) {
		if name == "rueidislock" {
			continue // it renews by itself, and its key has another name
		}
		t.Run(name, func(t *testing.T) {
			client := newClient(t, server)
			err := Both(t.Context(), client.Mutex("stock:42"), old(), 50*time.Millisecond, func(ctx context.Context) error {
				if err := rdb.Del(ctx, "stock:42").Err(); err != nil {
					return err
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("Both returned %v, want the loss of the old lock", err)
			}
		})
	}
}

// The work is done under the old locks and under Holdfast.
func TestBeforeAndAfter(t *testing.T) {
	server := redistest.Start(t)
	client := newClient(t, server)
	rs := redsync.New(goredis.NewPool(server.Client()))
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}}, KeyMajority: 1, NoLoopTracking: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	done := 0
	work := func(ctx context.Context) error {
		done++
		return ctx.Err()
	}
	for _, err := range []error{
		BeforeRedsync(t.Context(), rs, work),
		BeforeRedislock(t.Context(), redislock.New(server.Client()), work),
		BeforeRueidislock(t.Context(), locker, work),
		AfterRedsync(t.Context(), client, work),
		AfterRedislock(t.Context(), client, work),
		AfterRueidislock(t.Context(), client, work),
		AfterEtcd(t.Context(), client, work),
		AfterRedisson(t.Context(), client, work),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if done != 8 {
		t.Errorf("the work was done %d times, want 8", done)
	}
}

func newClient(t *testing.T, server *redistest.Server) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(engine.New(server.Client()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
