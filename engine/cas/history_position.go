package cas

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// historyWindow is by how much the time of an event may be before those of events that a reader has read already: a
// write takes some time, and on a store without a clock those of writers differ.
const historyWindow = 2 * time.Minute

// historyPosition is how far a reader has come: what it has read of each writer that has written in the window before
// the latest event. Of other writers everything before that window counts as read.
type historyPosition struct {
	latest int64               // when the latest event was written; 0: none was read
	read   map[string]readUpTo // by writer
}

type readUpTo struct {
	number  uint64 // of the last event
	written int64
}

// wants reports whether a page may have events that were not read.
func (h *historyPosition) wants(p page) bool {
	last := p.first + uint64(p.count) - 1
	return !h.hasRead(p.writer, last) && (h.of(p.writer) || h.latest == 0 || p.written >= h.from())
}

// of reports whether events of a writer were read lately.
func (h *historyPosition) of(writer string) bool {
	_, ok := h.read[writer]
	return ok
}

func (h *historyPosition) hasRead(writer string, number uint64) bool {
	return h.of(writer) && number <= h.read[writer].number
}

// from is the start of the window.
func (h *historyPosition) from() int64 { return h.latest - historyWindow.Microseconds() }

// advance records that an event of a page was read.
func (h *historyPosition) advance(p page, number uint64) {
	h.read[p.writer] = readUpTo{number, p.written}
	if p.written > h.latest {
		h.latest = p.written
		maps.DeleteFunc(h.read, func(_ string, r readUpTo) bool { return r.written < h.from() })
	}
}

// String returns the position as text: when the latest event was written, and for each writer its ID, the number of
// the last event, and when that was written.
func (h *historyPosition) String() string {
	b := strconv.AppendInt(nil, h.latest, 36)
	for _, writer := range slices.Sorted(maps.Keys(h.read)) {
		r := h.read[writer]
		b = append(append(append(b, ' '), writer...), '.')
		b = append(strconv.AppendUint(b, r.number, 36), '.')
		b = strconv.AppendInt(b, h.latest-r.written, 36)
	}
	return string(b)
}

func parseHistoryPosition(text string) (*historyPosition, error) {
	h := &historyPosition{read: make(map[string]readUpTo)}
	if text == "" {
		return h, nil
	}
	fields := strings.Split(text, " ")
	var err error
	if h.latest, err = strconv.ParseInt(fields[0], 36, 64); err != nil {
		return nil, errHistoryPosition(text)
	}
	for _, field := range fields[1:] {
		parts := strings.Split(field, ".")
		if len(parts) != 3 {
			return nil, errHistoryPosition(text)
		}
		number, err1 := strconv.ParseUint(parts[1], 36, 64)
		before, err2 := strconv.ParseInt(parts[2], 36, 64)
		if err1 != nil || err2 != nil {
			return nil, errHistoryPosition(text)
		}
		h.read[parts[0]] = readUpTo{number, h.latest - before}
	}
	return h, nil
}

func errHistoryPosition(text string) error {
	return fmt.Errorf("%w: cas: %q is no position in a history", engine.ErrDenied, text)
}
