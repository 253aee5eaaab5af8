package cas

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

var _ engine.HistoryKeeper = (*Engine)(nil)

const (
	// historyLife is how long an event is kept.
	historyLife = 30 * 24 * time.Hour
	// historyTrim is how many events all writers of a prefix append between two trims on average, or a
	// hundredth of what is kept if that is more.
	historyTrim = 100
	// historyPages is how many pages of a prefix are kept, however few events they have.
	historyPages = 20_000
	// lockedPause is the pause before a page that somebody else has locked is tried again.
	lockedPause = 10 * time.Millisecond
	// historyGone is how long a store keeps a page that was trimmed, which is empty.
	historyGone = time.Second
)

// historyWriter is this process as a writer of histories. Whoever has put the element into turn owns the rest.
type historyWriter struct {
	turn   chan struct{} // of capacity 1: the pages of a writer appear in the order of their numbers
	id     string        // "": it has none yet
	next   uint64        // the number of its next event
	latest int64         // when its latest event was written
}

// AppendHistory implements engine.HistoryKeeper. Each call makes pages of its own, so writers never contend.
func (e *Engine) AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error {
	if err := ended(ctx); err != nil {
		return err
	}
	w := &e.history
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return ended(ctx)
	}
	now, err := e.Now(ctx)
	if err != nil {
		return err
	}
	if w.id == "" {
		w.id, w.next = rand.Text()[:10], 1
	}
	w.latest = max(w.latest, now.UnixMicro())
	for left := events; len(left) > 0; {
		p := page{written: w.latest, writer: w.id, first: w.next, count: pageful(left)}
		change := Change{Key: p.key(prefix), Value: encodePage(left[:p.count]), Keep: historyLife, Relaxed: true}
		if err := e.writePage(ctx, change); err != nil {
			w.id = "" // the page may appear later, and then must not be behind other pages of its writer
			return err
		}
		w.next, left = w.next+uint64(p.count), left[p.count:]
	}
	if mrand.N(max(historyTrim, keep/100)) < len(events) {
		_ = e.trimHistory(ctx, prefix, keep) // the events are written, and another one trims
	}
	return nil
}

// writePage makes the change of a new page. While somebody else has locked it, as one who alters a table does, it
// tries again for as long as a call may take.
func (e *Engine) writePage(ctx context.Context, change Change) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for {
		outcomes, err := e.swapAll(ctx, []Change{change})
		if err != nil || !outcomes[0].Locked {
			return err
		}
		select {
		case <-time.After(lockedPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, errLocked)
		}
	}
}

// trimHistory empties the pages that are older than the newest ones, which have the events to keep. It
// begins with the newest of them, and ends where they have been emptied already.
func (e *Engine) trimHistory(ctx context.Context, prefix string, keep int) error {
	pages, err := e.pages(ctx, prefix)
	if err != nil {
		return err
	}
	slices.Reverse(pages)
	kept, events := 0, 0
	for kept < len(pages) && kept < historyPages && events < keep {
		events += pages[kept].count
		kept++
	}
	for old := range slices.Chunk(pages[kept:], listedAtOnce) {
		docs, err := e.readAll(ctx, pageReads(prefix, old))
		if err != nil {
			return err
		}
		var changes []Change
		for i, doc := range docs {
			if doc.Rev != 0 && len(doc.Value) > len(emptyPage) {
				changes = append(changes, Change{Key: old[i].key(prefix), Rev: doc.Rev, Value: emptyPage, Keep: historyGone, Relaxed: true})
			}
		}
		if len(changes) == 0 {
			return nil
		}
		if _, err := e.swapAll(ctx, changes); err != nil { // one that another writer was first to empty is no error
			return err
		}
	}
	return nil
}

// History implements engine.HistoryKeeper. An event that appears late, up to historyWindow after those of others that
// were written later, is returned all the same.
func (e *Engine) History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]engine.HistoryRecord, error) {
	at, err := parseHistoryPosition(after)
	if err != nil {
		return nil, err
	}
	pages, err := e.pages(ctx, prefix)
	if err != nil {
		return nil, err
	}
	pages = slices.DeleteFunc(pages, func(p page) bool { return !at.wants(p) || p.time().Before(since) })
	var records []engine.HistoryRecord
	err = e.readPages(ctx, prefix, pages, limit, func(p page, events [][]byte) int {
		for i, event := range events {
			if number := p.first + uint64(i); len(records) < limit && !at.hasRead(p.writer, number) {
				at.advance(p, number)
				records = append(records, engine.HistoryRecord{Position: at.String(), Written: p.time(), Event: event})
			}
		}
		return limit - len(records)
	})
	return records, err
}

// HistoryBefore implements engine.HistoryKeeper. A position is that of the event in its page, written like the name of a page.
func (e *Engine) HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]engine.HistoryRecord, error) {
	at, ok := parsePage(before)
	if !ok && before != "" {
		return nil, errHistoryPosition(before)
	}
	pages, err := e.pages(ctx, prefix)
	if err != nil {
		return nil, err
	}
	pages = slices.DeleteFunc(pages, func(p page) bool { return before != "" && p.compare(at) >= 0 })
	slices.Reverse(pages)
	var records []engine.HistoryRecord
	err = e.readPages(ctx, prefix, pages, limit, func(p page, events [][]byte) int {
		for i, event := range slices.Backward(events) {
			one := page{written: p.written, writer: p.writer, first: p.first + uint64(i), count: 1}
			if len(records) < limit && (before == "" || one.compare(at) < 0) {
				records = append(records, engine.HistoryRecord{Position: one.String(), Written: p.time(), Event: event})
			}
		}
		return limit - len(records)
	})
	return records, err
}

// pages returns the pages of a prefix, the oldest first. Some may have been emptied.
func (e *Engine) pages(ctx context.Context, prefix string) ([]page, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	var pages []page
	for key, err := range e.store.Keys(ctx, Histories, prefix) {
		if err != nil {
			return nil, failure(err)
		}
		if p, ok := parsePage(key.Name); ok {
			pages = append(pages, p)
		}
	}
	slices.SortFunc(pages, page.compare)
	return pages, nil
}

// readPages reads pages in order, as few as it takes for a number of events. take takes the events of a page, and
// returns how many more there must be.
func (e *Engine) readPages(ctx context.Context, prefix string, pages []page, missing int, take func(p page, events [][]byte) int) error {
	for len(pages) > 0 && missing > 0 {
		n := 0
		for events := 0; n < min(len(pages), listedAtOnce) && events < missing; n++ {
			events += pages[n].count
		}
		docs, err := e.readAll(ctx, pageReads(prefix, pages[:n]))
		if err != nil {
			return err
		}
		for i, doc := range docs {
			events, ok := decodePage(doc.Value)
			if !ok {
				return fmt.Errorf("%w: %w: page %q of the history", engine.ErrDenied, errDocument, pages[i].String())
			}
			missing = take(pages[i], events)
		}
		pages = pages[n:]
	}
	return nil
}
