//go:build unix

package trytest

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	ttl = 6 * time.Second
	// interval is from the start of one try to the next.
	interval = time.Second
	// pace is that between tries while a holder lives: several for each of its renewals.
	pace = 200 * time.Millisecond
	// allowance is for the store, which ends witnesses some seconds late, and for the starts of processes.
	allowance = 10 * time.Second
)

// FindsAKilledHolder requires that a process that only tries is granted the lease of one that was killed, within two
// TTLs and an allowance.
func FindsAKilledHolder(t *testing.T, addrs []string) {
	t.Helper()
	holder := startHolder(t, addrs)
	if err := holder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for tries := 1; ; tries++ {
		next := time.After(interval)
		got := try(t, addrs)
		if got.Granted {
			if got.Token <= holder.token {
				redistest.Broken(t, "token %d after %d", got.Token, holder.token)
			}
			t.Logf("try %d was granted the lease %v after its holder was killed, with a TTL of %v", tries, time.Since(killed).Round(time.Millisecond), ttl)
			return
		}
		if time.Since(killed) > 2*ttl+allowance {
			t.Fatalf("%d tries in %v after the holder was killed: the latest got %+v", tries, time.Since(killed), got)
		}
		<-next
	}
}

// PassesOverNoHolder requires that no process that tries is granted a lease whose holder lives, and is paused for half of its TTL
// now and then.
func PassesOverNoHolder(t *testing.T, addrs []string) {
	t.Helper()
	holder := startHolder(t, addrs)
	var granted []string
	tries, slowest := 0, time.Duration(0)
	tryFor := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; tries++ {
			next := time.After(pace)
			got := try(t, addrs)
			if slowest = max(slowest, got.Took); got.Granted || got.Error != "" {
				granted = append(granted, strings.TrimSpace(got.Error+" granted"))
			}
			<-next
		}
	}
	for range 2 {
		tryFor(ttl / 2)
		if err := redistest.Pause(holder.cmd.Process); err != nil {
			t.Fatal(err)
		}
		tryFor(ttl / 2)
		if err := holder.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		tryFor(ttl / 2)
		state := holder.state(t)
		if state == "held" && len(granted) > 0 {
			redistest.Broken(t, "while the holder was sure of its lease, tries got %q", granted)
		}
		if state != "held" {
			t.Fatalf("the holder has %s its lease, although it was paused for less than its TTL", state)
		}
	}
	t.Logf("%d tries, the slowest TryLock took %v", tries, slowest.Round(time.Millisecond))
}
