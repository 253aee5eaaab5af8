package enginetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// historyReader reads the history of a scene's prefix.
type historyReader struct {
	*scene
	engine.HistoryKeeper
}

// read returns records, and their different events: a quorum returns what each node has.
func (r historyReader) read(after string, since time.Time, limit int) (events []string, records []engine.HistoryRecord) {
	r.Helper()
	records, err := r.History(r.ctx, r.res.Prefix, after, since, limit)
	if err != nil || len(records) > limit {
		r.Fatalf("History(%q, %v, %d): %d records, %v", after, since, limit, len(records), err)
	}
	for _, one := range records {
		if event := string(one.Event); !slices.Contains(events, event) {
			events = append(events, event)
		}
	}
	return events, records
}

// append appends events, and returns the store's time after that.
func (r historyReader) append(keep int, events ...string) time.Time {
	r.Helper()
	var texts [][]byte
	for _, e := range events {
		texts = append(texts, []byte(e))
	}
	if err := r.AppendHistory(r.ctx, r.res.Prefix, keep, texts); err != nil {
		r.Fatal(err)
	}
	now, err := r.engine.Now(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	return now
}

// historyIsKept: events are read in the order in which they were appended, in pages, from a time on.
func historyIsKept(s *scene) {
	keeper, ok := s.engine.(engine.HistoryKeeper)
	if !ok {
		return // it may do without
	}
	const slack = 10 * time.Millisecond // of clocks that show milliseconds
	r := historyReader{s, keeper}
	if events, _ := r.read("", time.Time{}, 10); events != nil {
		s.Errorf("got %q of a history without events", events)
	}
	r.checkBackward(nil)
	all := []string{"a", "{\"b\": \"é\x00\"}", "c", "d", "e", "f"}
	r.append(1000, all[:2]...)
	middle := r.append(1000, all[2:4]...)
	s.pass(2 * slack)
	r.append(1000, all[4:]...)
	events, records := r.read("", time.Time{}, 100)
	if !slices.Equal(events, all) {
		s.Fatalf("got %q, want %q", events, all)
	}
	if w := records[0].Written; w.After(middle.Add(slack)) || w.Before(middle.Add(-eventTimeout)) {
		s.Errorf("the first was written at %v, want before %v", w, middle)
	}
	if events, _ := r.read("", middle.Add(slack), 100); !slices.Equal(events, all[4:]) {
		s.Errorf("since %v: got %q, want %q", middle, events, all[4:])
	}
	var paged []string
	for after := ""; ; {
		_, page := r.read(after, time.Time{}, 4)
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			if !slices.Contains(paged, string(one.Event)) {
				paged = append(paged, string(one.Event))
			}
		}
		after = page[len(page)-1].Position
	}
	if !slices.Equal(paged, all) {
		s.Errorf("in pages: got %q, want %q", paged, all)
	}
	if events, _ := r.read(records[len(records)-1].Position, time.Time{}, 10); events != nil {
		s.Errorf("after the last: got %q", events)
	}
	r.checkBackward(all)
}

// checkBackward: the newest events are read first, in pages.
func (r historyReader) checkBackward(all []string) {
	r.Helper()
	var got []string
	for before := ""; ; {
		page, err := r.HistoryBefore(r.ctx, r.res.Prefix, before, 4)
		if err != nil || len(page) > 4 {
			r.Fatalf("HistoryBefore(%q, 4): %d records, %v", before, len(page), err)
		}
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			if event := string(one.Event); !slices.Contains(got, event) {
				got = append(got, event)
			}
		}
		before = page[len(page)-1].Position
	}
	slices.Reverse(got)
	if !slices.Equal(got, all) {
		r.Errorf("newest first, turned round: got %q, want %q", got, all)
	}
}

// historyIsCapped: the oldest events are removed.
func historyIsCapped(s *scene) {
	keeper, ok := s.engine.(engine.HistoryKeeper)
	if !ok {
		return
	}
	r := historyReader{s, keeper}
	var all []string
	for i := range 500 {
		all = append(all, fmt.Sprint("event ", i))
	}
	r.append(100, all...)
	events, _ := r.read("", time.Time{}, 10_000)
	if len(events) < 100 || len(events) > 220 || !slices.Equal(events, all[len(all)-len(events):]) {
		s.Errorf("of 500 events to keep 100 of, %d are left: %q", len(events), events)
	}
}
