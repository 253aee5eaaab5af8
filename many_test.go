package holdfast_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// losses counts the calls of the hook.
type losses struct{ n atomic.Int64 }

func (l *losses) Lost(*holdfast.LostError) { l.n.Add(1) }

// lockMany takes n leases with a context each.
func lockMany(t *testing.T, c *holdfast.Client, n int, opts ...holdfast.LockOption) []*holdfast.Lease {
	t.Helper()
	all := make([]*holdfast.Lease, n)
	for i := range all {
		all[i] = mustLock(t, c.Mutex(strconv.Itoa(i), opts...).Lock, context.Background())
		all[i].Context()
	}
	return all
}

// While the store is down, a client with many leases uses few goroutines, the hook reports
// each loss before the store's deadline, and the log stays short. What the store still has is
// released when it is back.
func TestManyLeasesAreLost(t *testing.T) {
	n := redistest.Scale(1000, 100_000)
	for name, fault := range map[string]func(*faulty){
		"refused":      func(e *faulty) { e.All(down) },
		"hung":         func(e *faulty) { e.All(hang) },
		"answers lost": func(e *faulty) { e.LoseReplies() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 15 * time.Second
				e, hook, log := newFaulty(), &losses{}, &bytes.Buffer{}
				c := newClient(t, e, holdfast.WithHooks(hook), holdfast.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				all := lockMany(t, c, n, holdfast.WithTTL(ttl))
				time.Sleep(7 * time.Second)
				before, most := runtime.NumGoroutine(), 0
				fault(e)
				sent := all[0].Deadline().Add(keepalive.Margin(ttl) - ttl) // of the last renewal
				for time.Since(sent) < ttl-keepalive.Margin(ttl) {
					time.Sleep(50 * time.Millisecond)
					synctest.Wait()
					most = max(most, runtime.NumGoroutine()-before)
				}
				for i, l := range all {
					if l.Context().Err() == nil {
						t.Fatalf("lease %d is not notified", i)
					}
				}
				for range 100 {
					time.Sleep(50 * time.Millisecond)
					synctest.Wait()
					most = max(most, runtime.NumGoroutine()-before)
				}
				if got := int(hook.n.Load()); got != n {
					t.Errorf("the hook was called for %d losses of %d leases", got, n)
				}
				if most > 200 {
					t.Errorf("%d goroutines", most)
				}
				e.All(nil)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for _, i := range []int{0, n / 2, n - 1} {
					wantEmpty(t, e.Engine, strconv.Itoa(i))
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				text := log.String()
				if lines := strings.Count(text, "\n"); lines > 400 || !strings.Contains(text, "more leases were lost") {
					t.Errorf("%d lines of log:\n%.2000s", lines, text)
				}
			})
		})
	}
}

// A few goroutines retry the releases that failed, one after the other when the store is
// back, however long that takes: the leases have an hour.
func TestCleanupsOfMany(t *testing.T) {
	n := redistest.Scale(2000, 50_000)
	for _, away := range []time.Duration{3 * time.Second, time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := newClient(t, e)
				all := lockMany(t, c, n, holdfast.WithTTL(time.Hour), holdfast.WithoutTenure())
				e.All(down)
				var refused atomic.Int64
				for _, l := range all {
					go func() {
						if err := l.Release(context.Background()); err != nil {
							refused.Add(1)
						}
					}()
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if int(refused.Load()) != n {
					t.Errorf("%d of %d releases failed", refused.Load(), n)
				}
				before := e.Count("release")
				time.Sleep(away)
				synctest.Wait()
				if calls, most := e.Count("release")-before, int(away/time.Second)*200; calls > most {
					t.Errorf("%d releases in %v; want at most %d", calls, away, most)
				}
				e.All(nil)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for _, i := range []int{0, n - 1} {
					wantEmpty(t, e.Engine, strconv.Itoa(i))
				}
			})
		})
	}
}

// Close releases very many leases, and reports in one line what the store did not
// confirm.
func TestCloseSumsUp(t *testing.T) {
	n := redistest.Scale(2000, 100_000)
	for name, fault := range map[string]func(context.Context) error{"answers": nil, "refuses": down, "hangs": hang, "denies": denied} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := newClient(t, e)
				all := lockMany(t, c, n, holdfast.WithTTL(time.Hour))
				e.All(fault)
				var most atomic.Int64
				before := runtime.NumGoroutine()
				e.Set(func() {
					e.OnRelease = func(ctx context.Context, r engine.Release) error {
						most.Store(max(most.Load(), int64(runtime.NumGoroutine()-before)))
						if fault != nil {
							return fault(ctx)
						}
						return e.Engine.Release(ctx, r)
					}
				})
				start := time.Now()
				err := c.Close()
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("Close took %v", took)
				}
				if most.Load() > 200 {
					t.Errorf("%d goroutines", most.Load())
				}
				for i, l := range all {
					if l.Context().Err() == nil {
						t.Fatalf("lease %d is not notified", i)
					}
				}
				if name == "answers" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				want := map[string]error{"refuses": holdfast.ErrUnavailable, "hangs": holdfast.ErrUnavailable, "denies": holdfast.ErrDenied}[name]
				wantErr(t, err, want)
				if text := err.Error(); len(text) > 300 || !strings.Contains(text, fmt.Sprintf("%d of %d leases", n, n)) {
					t.Errorf("the error has %d bytes: %.400s", len(text), text)
				}
			})
		})
	}
}
