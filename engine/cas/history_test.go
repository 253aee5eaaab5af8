package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// record appends one event to the history of prefix p.
func record(t *testing.T, e *cas.Engine, event string) {
	t.Helper()
	if err := e.AppendHistory(t.Context(), "p", 1000, [][]byte{[]byte(event)}); err != nil {
		t.Fatal(err)
	}
}

// follow returns what is in the history after a position, in pages of two, and the position after it.
func follow(t *testing.T, e *cas.Engine, position string) (events []string, after string) {
	t.Helper()
	for {
		page, err := e.History(t.Context(), "p", position, time.Time{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			events, position = append(events, string(r.Event)), r.Position
		}
		if len(page) < 2 {
			return events, position
		}
	}
}

// A reader that follows a history gets each event once, also those of a writer whose clock is behind.
func TestHistoryOfClocksThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		ahead := cas.New(m, 0)
		behind := cas.New(&castest.Timed{Memory: m, Clock: func() time.Time { return time.Now().Add(-time.Minute) }}, 0)
		record(t, ahead, "a1")
		record(t, behind, "b1")
		got, position := follow(t, ahead, "")
		if want := []string{"b1", "a1"}; !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i := range 10 {
			record(t, behind, fmt.Sprint("b", i+2))
			record(t, ahead, fmt.Sprint("a", i+2))
			if got, position = follow(t, ahead, position); !slices.Equal(got, []string{fmt.Sprint("b", i+2), fmt.Sprint("a", i+2)}) {
				t.Fatalf("after %d rounds: got %q", i, got)
			}
			time.Sleep(time.Hour) // positions need not name the writers of that time
		}
		if got, _ = follow(t, ahead, position); got != nil {
			t.Errorf("got %q, which was read before", got)
		}
	})
}

// A page that appears after the call that wrote it has failed is read, however late.
func TestHistoryOfALateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		s := &hooked{DocumentStore: m}
		e := cas.New(s, 0)
		record(t, e, "first")
		var late []cas.Change
		s.swap = func(_ context.Context, c []cas.Change) ([]cas.Outcome, error) {
			late = c
			return nil, errors.New("no reply")
		}
		if err := e.AppendHistory(t.Context(), "p", 1000, [][]byte{[]byte("late")}); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		s.swap = nil
		time.Sleep(time.Millisecond) // events of one instant are in the order of their writers
		record(t, e, "second")
		got, position := follow(t, e, "")
		if _, err := m.Swap(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		more, _ := follow(t, e, position)
		if got = append(got, more...); !slices.Equal(got, []string{"first", "second", "late"}) {
			t.Errorf("got %q", got)
		}
	})
}

// However many clients write a few events each, the oldest are removed, and the resources are not disturbed.
func TestHistoryOfManyWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep, written = 200, 3000
		m := castest.NewMemory()
		reader := cas.New(m, 0)
		for i := range written {
			if err := cas.New(m, 0).AppendHistory(t.Context(), "p", keep, [][]byte{fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		// That there are more needs 1,500 calls, none of which trims: one in three million.
		records, err := reader.HistoryBefore(t.Context(), "p", "", written)
		if n := len(records); err != nil || n < keep || n > keep+1500 || string(records[0].Event) != fmt.Sprint(written-1) {
			t.Errorf("to keep %d events of %d, %d are left, %v", keep, written, n, err)
		}
		for s, err := range reader.List(t.Context(), "p", "*") {
			t.Errorf("List yields %v, %v", s, err)
		}
		time.Sleep(31 * 24 * time.Hour)
		if records, err := reader.History(t.Context(), "p", "", time.Time{}, written); len(records) > 0 || err != nil {
			t.Errorf("a month later: %d events, %v", len(records), err)
		}
	})
}

// Large events are in documents of a bounded size, and in order.
func TestHistoryOfLargeEvents(t *testing.T) {
	s := &hooked{DocumentStore: castest.NewMemory()}
	e := cas.New(s, 0)
	var events [][]byte
	for i := range 500 {
		events = append(events, bytes.Repeat([]byte{byte(i)}, 8<<10))
	}
	s.swap = func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
		for _, c := range changes {
			if len(c.Value) > 48<<10 {
				t.Errorf("a document of %d bytes", len(c.Value))
			}
		}
		return s.DocumentStore.Swap(ctx, changes)
	}
	if err := e.AppendHistory(t.Context(), "p", 1000, events); err != nil {
		t.Fatal(err)
	}
	records, err := e.History(t.Context(), "p", "", time.Time{}, 1000)
	if len(records) != len(events) || err != nil {
		t.Fatalf("got %d events, %v", len(records), err)
	}
	for i, r := range records {
		if !bytes.Equal(r.Event, events[i]) {
			t.Fatalf("event %d is another one", i)
		}
	}
}

// What is no position is refused.
func TestHistoryPositions(t *testing.T) {
	e := cas.New(castest.NewMemory(), 0)
	for _, position := range []string{" ", "?", "1 a", "1 a.b", "1 a.?.1", "1 a.1.?", "0-a-1"} {
		if _, err := e.History(t.Context(), "p", position, time.Time{}, 1); !errors.Is(err, engine.ErrDenied) {
			t.Errorf("History after %q: %v", position, err)
		}
		if _, err := e.HistoryBefore(t.Context(), "p", position, 1); !errors.Is(err, engine.ErrDenied) {
			t.Errorf("HistoryBefore %q: %v", position, err)
		}
	}
}

// While somebody else has locked the table, a page is tried again; if that is in vain, the call fails.
func TestHistoryOfALockedTable(t *testing.T) {
	for _, long := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &hooked{DocumentStore: castest.NewMemory()}
			e := cas.New(s, 0)
			free := time.Now().Add(time.Second)
			if long {
				free = free.Add(time.Hour)
			}
			s.swap = func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
				if time.Now().Before(free) {
					return []cas.Outcome{{Locked: true}}, nil
				}
				return s.DocumentStore.Swap(ctx, changes)
			}
			err := e.AppendHistory(t.Context(), "p", 1000, [][]byte{[]byte("one")})
			free = time.Now()
			got, _ := follow(t, e, "")
			switch {
			case long && !errors.Is(err, engine.ErrUnavailable):
				t.Errorf("the table is locked for an hour: %v", err)
			case !long && (err != nil || len(got) != 1):
				t.Errorf("AppendHistory: %v; the history has %q", err, got)
			}
		})
	}
}
