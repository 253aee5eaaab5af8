package holdfast

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Each ID is new once, in whatever order IDs come.
func TestSeenEvents(t *testing.T) {
	s := make(seenEvents)
	id := func(n int) string { return "w." + strconv.FormatInt(int64(n), 36) }
	seen := map[int]bool{}
	for range 20_000 {
		n := 1 + rand.IntN(5000)
		if got := s.add(id(n)); got == seen[n] {
			t.Fatalf("%d is new: %v", n, got)
		}
		seen[n] = true
	}
	for _, bad := range []string{"", "w", "w.", "w.0", "w.-1", "w.!"} {
		if s.add(bad) {
			t.Errorf("%q is an ID", bad)
		}
	}
	for n := range 3 * historyWriters {
		s.add("writer" + strconv.Itoa(n) + ".1")
		s.add(id(1))
	}
	if len(s) > 2*historyWriters || s.add(id(1)) {
		t.Errorf("%d writers are known", len(s))
	}
}

type refusedHistory struct{ *memory.Engine }

func (refusedHistory) AppendHistory(context.Context, string, int, [][]byte) error {
	return engine.ErrDenied
}

// A lease that ends after Close, whose history could not be written, is no trouble.
func TestHistoryAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(refusedHistory{memory.New()}, WithHistory(0))
		if err != nil {
			t.Fatal(err)
		}
		c.recorder.add(historyText{Event: HistoryGranted, Resource: "a", Token: 1}, nil)
		<-time.After(2 * historyGather)
		c.recorder.add(historyText{Event: HistoryGranted, Resource: "b", Token: 2}, nil)
		_ = c.Close()
		c.recorder.add(historyText{Event: HistoryReleased, Resource: "b", Token: 2}, nil)
	})
}
