package keepalive

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A call renews leases of whatever TTLs, if they are due at about the same time.
func TestLeasesOfManyTTLsGoTogether(t *testing.T) {
	const n, intervals = 2000, 3
	for name, c := range map[string]struct {
		ttl   func(i int) time.Duration
		pause time.Duration
		most  int64
	}{
		"each its own":        {func(i int) time.Duration { return 15*time.Second + time.Duration(i)*time.Millisecond }, 0, 4 * intervals},
		"in no order":         {func(int) time.Duration { return 15*time.Second + rand.N(2*time.Second) }, 0, 6 * intervals},
		"three":               {func(i int) time.Duration { return time.Duration(15+i%3) * time.Second }, 0, 7 * intervals},
		"three, taken in 2 s": {func(i int) time.Duration { return time.Duration(15+i%3) * time.Second }, time.Millisecond, 15 * intervals},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls, renewed atomic.Int64
				s := New(&part{
					hangs: func(string) bool { renewed.Add(1); return false },
					call:  func() func() { calls.Add(1); return func() {} },
				})
				defer s.Stop()
				for i := range n {
					h := newHolder(s, fmt.Sprint(i), c.ttl(i))
					s.Add(&h.entry, Usual)
					time.Sleep(c.pause)
				}
				time.Sleep(4 * time.Second) // before the first renewal, or after some
				calls.Store(0)
				renewed.Store(0)
				time.Sleep(15500 * time.Millisecond)
				synctest.Wait()
				if calls.Load() > c.most || renewed.Load() < n*intervals*95/100 {
					t.Errorf("%d calls for %d renewals; want at most %d", calls.Load(), renewed.Load(), c.most)
				}
			})
		})
	}
}

// However many renewals hang, few are under way at a time, and those that the
// store answers are made in time: a third of the leases is on a part of the store
// that hangs.
func TestCallsUnderWayAreBounded(t *testing.T) {
	n := redistest.Scale(12_000, 100_000)
	synctest.Test(t, func(t *testing.T) {
		var underWay, most atomic.Int64
		st := &part{hangs: func(id string) bool { return id < "4" }} // 4 of 9
		st.call = func() func() {
			now := underWay.Add(1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			return func() { underWay.Add(-1) }
		}
		s := New(st)
		defer s.Stop()
		all := addAll(s, n)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		for _, h := range all {
			if want := st.hangs(h.id); (h.lost == 1) != want {
				t.Fatalf("%s: lost %d times, renewed %d times", h.id, h.lost, h.renewed)
			}
		}
		if most.Load() > maxCalls+maxRetries {
			t.Errorf("%d calls at a time", most.Load())
		}
	})
}

// part is a store of which a part hangs: a call that concerns it has no answer
// for that, and waits for it as long as it may.
type part struct {
	engine.Engine
	hangs func(id string) bool
	call  func() (end func())
}

func (p *part) Renew(ctx context.Context, batch []engine.Renewal) []error {
	defer p.call()()
	errs, waits := make([]error, len(batch)), false
	for i, r := range batch {
		if p.hangs(r.ID) {
			errs[i], waits = engine.ErrUnavailable, true
		}
	}
	if waits {
		<-ctx.Done()
	}
	return errs
}

// A store that refuses costs a client with many leases a bounded number of calls,
// and all are renewed soon after it is back.
func TestRetriesOfManyAreBounded(t *testing.T) {
	n := redistest.Scale(5_000, 100_000)
	synctest.Test(t, func(t *testing.T) {
		st := &store{answer: unreachable}
		s := New(st)
		defer s.Stop()
		all := addAll(s, n)
		time.Sleep(13 * time.Second)
		synctest.Wait()
		first, each := n/batchSize+1, time.Second/retryPause*maxRetries
		if most := first + 10*int(each); st.calls < 100 || st.calls > most {
			t.Errorf("%d calls in 8 s; want at most %d", st.calls, most)
		}
		st.mu.Lock()
		st.answer = nil
		st.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		for _, h := range all {
			if h.lost > 0 || h.renewed == 0 {
				t.Fatalf("lost %d times, renewed %d times", h.lost, h.renewed)
			}
		}
		s.mu.Lock()
		troubled := s.troubled
		s.mu.Unlock()
		if troubled != 0 {
			t.Errorf("%d in trouble", troubled)
		}
	})
}

// If several leases are lost at one moment, all holders are notified before the window
// ends, and all leases are freed before the first loss is reported, however long the
// reports take.
func TestAllLossesAreReportedFirst(t *testing.T) {
	const n = 6 * batchSize
	ways := map[string]struct {
		answer func(context.Context, engine.Renewal) error
		atOnce int64 // so many are lost at one moment
	}{
		"refused": {unreachable, n},
		"gone": {func(context.Context, engine.Renewal) error {
			return &engine.NotHeldError{Cause: engine.CauseExpired}
		}, batchSize}, // in one answer
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(&store{answer: way.answer})
				start := time.Now()
				var freed, reported, first atomic.Int64
				all := make([]*holder, n)
				for i := range all {
					all[i] = newHolder(s, fmt.Sprint(i), 15*time.Second)
					all[i].free = func() { freed.Add(1); time.Sleep(time.Millisecond) }
					all[i].report = func() {
						if reported.Add(1) == 1 {
							first.Store(freed.Load())
						}
						time.Sleep(time.Second)
					}
					s.Add(&all[i].entry, Usual)
				}
				time.Sleep(15 * time.Second)
				synctest.Wait()
				for i, h := range all {
					if after := h.lostAt.Sub(start); h.lost != 1 || after > 15*time.Second-Margin(15*time.Second) {
						t.Fatalf("%d: lost %d times, notified after %v", i, h.lost, after)
					}
				}
				if reported.Load() == n {
					t.Error("no time has passed")
				}
				time.Sleep(n * time.Second)
				s.Stop()
				if first.Load() < way.atOnce {
					t.Errorf("the first report was made when %d leases were freed; want %d", first.Load(), way.atOnce)
				}
				if reported.Load() != n {
					t.Errorf("%d of %d losses were reported", reported.Load(), n)
				}
			})
		})
	}
}

// If very many leases may be lost together, their losses are reported earlier, so that
// the last report is in time on a slow machine too. For a few they are not.
func TestManyLeasesAreLostEarlier(t *testing.T) {
	for _, n := range []int{2 * batchSize, 4 * batchSize, 200_000} {
		if n > 100_000 && !redistest.Long() {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := New(&store{answer: unreachable})
			defer s.Stop()
			start := time.Now()
			all := addAll(s, n)
			time.Sleep(15 * time.Second)
			synctest.Wait()
			window := 15*time.Second - Margin(15*time.Second)
			early, late := time.Duration(0), window
			for _, h := range all {
				early = max(early, window-h.lostAt.Sub(start))
				late = min(late, window-h.lostAt.Sub(start))
			}
			if late < 0 || n == 2*batchSize && early != 0 || n > 2*batchSize && (early <= 0 || early > min(300*time.Millisecond, time.Duration(n)*notifyTime)) {
				t.Errorf("%d leases: the first was notified %v before the end of its window, the last %v", n, early, late)
			}
		})
	}
}
