package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	// triesTTL is that of a holder beside processes that only try.
	triesTTL = 6 * time.Second
	// interval is from the start of one try to the next.
	interval = time.Second
	// pace is that between tries while a holder lives: several for each of its renewals.
	pace = 200 * time.Millisecond
	// allowance is for the store, which ends witnesses some seconds late, and for the starts of processes.
	allowance = 10 * time.Second
)

// outcome is what a process that tried prints.
type outcome struct {
	Granted bool
	Token   uint64
	Error   string        // other than that the lease is held
	Took    time.Duration // for the TryLock
}

// tryOnce is what a worker that tries does.
func tryOnce(m *holdfast.Mutex) (got outcome) {
	began := time.Now()
	lease, err := m.TryLock(context.Background())
	got.Took = time.Since(began)
	if err == nil {
		got.Granted, got.Token = true, lease.Token()
		err = lease.Release(context.Background())
	}
	if err != nil && !errors.Is(err, holdfast.ErrNotAcquired) {
		got.Error = err.Error()
	}
	return got
}

// try runs a worker that tries once.
func (s *Store) try(t testing.TB) (got outcome) {
	t.Helper()
	w := s.Start(t, Try)
	defer w.Stop()
	if err := json.Unmarshal([]byte(w.line(t)), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// FindsAKilledHolder requires that a process that only tries is granted the lease of one that was killed, within two
// TTLs and an allowance.
func FindsAKilledHolder(t *testing.T, s *Store) {
	t.Helper()
	s.ttl = triesTTL
	holder, token := s.StartHolder(t)
	holder.Kill()
	killed := time.Now()
	for tries := 1; ; tries++ {
		next := time.After(interval)
		got := s.try(t)
		if got.Granted {
			if got.Token <= token {
				redistest.Broken(t, "token %d after %d", got.Token, token)
			}
			t.Logf("try %d was granted the lease %v after its holder was killed, with a TTL of %v", tries, time.Since(killed).Round(time.Millisecond), triesTTL)
			return
		}
		if time.Since(killed) > 2*triesTTL+allowance {
			t.Fatalf("%d tries in %v after the holder was killed: the latest got %+v", tries, time.Since(killed), got)
		}
		<-next
	}
}

// PassesOverNoHolder requires that no process that tries is granted a lease whose holder lives, and is paused for half of its TTL
// now and then.
func PassesOverNoHolder(t *testing.T, s *Store) {
	t.Helper()
	s.ttl = triesTTL
	holder, _ := s.StartHolder(t)
	var granted []string
	tries, slowest := 0, time.Duration(0)
	tryFor := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; tries++ {
			next := time.After(pace)
			got := s.try(t)
			if slowest = max(slowest, got.Took); got.Granted || got.Error != "" {
				granted = append(granted, strings.TrimSpace(got.Error+" granted"))
			}
			<-next
		}
	}
	for range 2 {
		tryFor(triesTTL / 2)
		holder.Pause(t)
		tryFor(triesTTL / 2)
		holder.Resume()
		tryFor(triesTTL / 2)
		state := holder.Ask(t)
		held := strings.HasPrefix(state, "held")
		if held && len(granted) > 0 {
			redistest.Broken(t, "while the holder was sure of its lease, tries got %q", granted)
		}
		if !held {
			t.Fatalf("the holder, which was paused for less than its TTL, says %q of its lease", state)
		}
	}
	t.Logf("%d tries, the slowest TryLock took %v", tries, slowest.Round(time.Millisecond))
}
