package cas

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// pageEvents is how many events a page has at most, and pageSize after how many bytes no further event is added.
	pageEvents = 100
	pageSize   = 32 << 10

	pageVersion = 1
)

// A page is a document of a history: events that one writer has written at one time. Its name is all of this, so
// that a reader reads only the pages that it needs. A page never changes, but for being emptied.
type page struct {
	written int64  // in microseconds, by the store's clock or the writer's
	writer  string // which is unique, and whose pages are never older than those before
	first   uint64 // the number of the first event, which counts those of the writer
	count   int    // of events
}

// emptyPage is a page that was trimmed.
var emptyPage = []byte{pageVersion}

// String returns the name of the document.
func (p page) String() string {
	return fmt.Sprintf("%016x-%s-%x-%x", p.written, p.writer, p.first, p.count)
}

// parsePage returns the page with a name.
func parsePage(name string) (p page, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 4 {
		return page{}, false
	}
	written, err1 := strconv.ParseInt(parts[0], 16, 64)
	first, err2 := strconv.ParseUint(parts[2], 16, 64)
	count, err3 := strconv.ParseUint(parts[3], 16, 16)
	return page{written, parts[1], first, int(count)}, cmp.Or(err1, err2, err3) == nil
}

// compare is the order of events in a history.
func (p page) compare(other page) int {
	return cmp.Or(cmp.Compare(p.written, other.written), strings.Compare(p.writer, other.writer), cmp.Compare(p.first, other.first))
}

func (p page) time() time.Time { return time.UnixMicro(p.written) }

func (p page) key(prefix string) Key { return Key{Space: Histories, Prefix: prefix, Name: p.String()} }

// pageReads returns the requests for pages.
func pageReads(prefix string, pages []page) []Read {
	reads := make([]Read, len(pages))
	for i, p := range pages {
		reads[i].Key = p.key(prefix)
	}
	return reads
}

// pageful returns how many of some events are one page.
func pageful(events [][]byte) int {
	n, size := 0, 0
	for n < min(len(events), pageEvents) && size < pageSize {
		size += len(events[n])
		n++
	}
	return n
}

func encodePage(events [][]byte) []byte {
	b := []byte{pageVersion}
	for _, event := range events {
		b = appendString(b, string(event))
	}
	return b
}

// decodePage returns the events of a document, or of none.
func decodePage(b []byte) (events [][]byte, ok bool) {
	if len(b) == 0 {
		return nil, true
	}
	if b[0] != pageVersion {
		return nil, false
	}
	for r := (reader{rest: b[1:]}); len(r.rest) > 0; {
		event := r.string()
		if r.failed {
			return nil, false
		}
		events = append(events, []byte(event))
	}
	return events, true
}
