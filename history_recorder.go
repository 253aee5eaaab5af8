package holdfast

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	historyGather  = 200 * time.Millisecond // from the first event to the request that writes it
	historyQueued  = 10_000                 // events that wait to be written
	historyBatch   = 500                    // events of one request
	historyTimeout = 2 * time.Second        // of one request
	historySlowest = 10 * time.Second       // between two tries
)

// historyRecorder writes events to the history in the background. The methods of a nil
// historyRecorder do nothing.
type historyRecorder struct {
	c      *Client
	keeper engine.HistoryKeeper
	keep   int
	run    string          // the random part of the IDs of its events
	open   context.Context // ends when the client closes: then events are written at once
	hurry  context.CancelFunc
	life   context.Context // of requests
	end    context.CancelFunc

	mu      sync.Mutex
	queue   []queuedEvent
	grants  map[grantOf]int // the places of grants in queue
	dropped int
	written uint64        // number of IDs given
	done    chan struct{} // closed when the goroutine has ended; nil: there is none
}

type queuedEvent struct {
	historyText
	at time.Time
}

// grantOf identifies a lease. Those without the store have no token. Readers that share a lease have one token: then it
// has the lease of each.
type grantOf struct {
	resource string
	token    uint64
	lease    *Lease
}

// newHistoryRecorder returns nil if the history is off.
func newHistoryRecorder(c *Client, keep int) (*historyRecorder, error) {
	if keep == 0 {
		return nil, nil
	}
	keeper, ok := engine.KeepsHistory(c.engine)
	if !ok {
		return nil, optionError("WithHistory: the engine keeps no history")
	}
	r := &historyRecorder{c: c, keeper: keeper, keep: keep, run: rand.Text()[:10], grants: make(map[grantOf]int)}
	r.open, r.hurry = context.WithCancel(context.Background())
	r.life, r.end = context.WithCancel(context.Background())
	return r, nil
}

// acquireEnded records a grant, or the end of a wait without a grant.
func (r *historyRecorder) acquireEnded(l *Lease, e AcquireEndEvent, wait bool) {
	if r == nil || e.Source == SourceContext || endedBy(e.Err, errMarked) { // the work is done already
		return
	}
	text, of := historyText{Resource: e.Resource, Kind: e.Kind, Waited: e.Waited.Microseconds()}, (*Lease)(nil)
	if e.Weight != 1 {
		text.Weight = e.Weight
	}
	switch {
	case l != nil && l.Err() != nil: // HistoryLost says it
		return
	case l != nil:
		text.Event, text.Token = HistoryGranted, l.token
		if h, ok := l.grant.(*storeGrant); ok {
			start, _ := h.start(l)
			of = start.lease
		}
		switch e.Source {
		case SourceFallback:
			text.Cause = "without the store"
		case SourceTicket:
			text.Cause = "adopted"
		}
	case wait:
		text.Event, text.Cause = HistoryWithdrawn, e.Err.Error()
		if why, ok := errors.AsType[*waitError](e.Err); ok {
			text.Cause = why.ended.Error()
		}
	default:
		return
	}
	r.add(text, of)
}

// released records the end of a lease by its holder, or that it was detached. l is nil, unless callers share the grant.
func (r *historyRecorder) released(e ReleaseEvent, l *Lease) {
	if r == nil {
		return
	}
	text := historyText{Event: HistoryReleased, Resource: e.Resource, Kind: e.Kind, Token: e.Token, Held: e.Held.Microseconds()}
	why, ok := errors.AsType[*LostError](e.Err)
	switch {
	case ok: // the store says so in its answer to the release
		text.Event, text.Cause = HistoryLost, withReason(why.Cause.String(), why.Reason)
	case e.Err != nil:
		text.Cause = "not confirmed by the store"
	case e.HandOff == HandOffTicket:
		text.Event = HistoryDetached
	}
	r.add(text, l)
}

// lost records a loss.
func (r *historyRecorder) lost(lk *acquirer, why *LostError, held time.Duration, l *Lease) {
	if r != nil {
		r.add(historyText{Event: HistoryLost, Resource: why.Resource, Kind: string(lk.kind), Token: why.Token, Held: held.Microseconds(), Cause: withReason(why.Cause.String(), why.Reason)}, l)
	}
}

// broke records what an operator has ended.
func (r *historyRecorder) broke(name, what string) {
	if r != nil {
		r.add(historyText{Event: HistoryBroke, Resource: name, Cause: what}, nil)
	}
}

// withReason returns what was done, and the operator's reason if there is one.
func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// add queues an event. The end of a lease replaces its grant if that was not taken to be written.
func (r *historyRecorder) add(text historyText, l *Lease) {
	now := time.Now()
	text.Cause = cut(text.Cause, maxTextLen)
	r.mu.Lock()
	defer r.mu.Unlock()
	of := grantOf{text.Resource, text.Token, l}
	if place, ok := r.grants[of]; ok && text.Event != HistoryGranted {
		delete(r.grants, of)
		text.Weight, text.Waited = r.queue[place].Weight, r.queue[place].Waited
		r.queue[place] = queuedEvent{text, now}
		return
	}
	if len(r.queue) == historyQueued || r.open.Err() != nil {
		r.dropped++
		return
	}
	if _, shared := r.grants[of]; text.Event == HistoryGranted && text.Token > 0 && !shared {
		r.grants[of] = len(r.queue)
	}
	r.queue = append(r.queue, queuedEvent{text, now})
	if r.done == nil {
		r.done = make(chan struct{})
		go r.write(r.done)
	}
}

// cut shortens a text to n bytes at most, at a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// take takes a batch from the queue. If nothing is left, the goroutine must end.
func (r *historyRecorder) take() []queuedEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		r.queue = append(r.queue, queuedEvent{historyText{Event: HistoryDropped, Count: r.dropped}, time.Now()})
		r.dropped = 0
	}
	n := min(len(r.queue), historyBatch)
	if n == 0 {
		r.queue, r.done = nil, nil
		return nil
	}
	batch := r.queue[:n:n]
	r.queue = r.queue[n:]
	clear(r.grants) // their places have changed, and those in batch are written
	for i := range batch {
		r.written++
		batch[i].ID = r.run + "." + strconv.FormatUint(r.written, 36)
		batch[i].Name, batch[i].Host, batch[i].PID = r.c.info.Name, r.c.info.Host, r.c.info.PID
	}
	return batch
}

// write writes events until none is left.
func (r *historyRecorder) write(done chan struct{}) {
	defer close(done)
	sleep(r.open, historyGather)
	for {
		batch := r.take()
		if batch == nil {
			return
		}
		if !r.send(batch) {
			r.mu.Lock()
			left := len(batch) + len(r.queue) + r.dropped
			r.queue = nil // and none is added, since open has ended
			clear(r.grants)
			r.mu.Unlock()
			r.c.log.Warn("holdfast: events of the history were not written", "events", left)
			return
		}
		r.mu.Lock()
		full := len(r.queue) >= historyBatch
		r.mu.Unlock()
		if !full {
			sleep(r.open, historyGather)
		}
	}
}

// send writes a batch. It tries again until the client closes, and then once.
func (r *historyRecorder) send(batch []queuedEvent) bool {
	for wait := historyGather; ; wait = min(2*wait, historySlowest) {
		last := r.open.Err() != nil
		ctx, cancel := context.WithTimeout(r.life, historyTimeout)
		err := r.keeper.AppendHistory(ctx, r.c.prefix, r.keep, encodeHistory(batch))
		cancel()
		if err == nil || last {
			return err == nil
		}
		if wait == historyGather {
			r.c.log.Warn("holdfast: the history cannot be written; retrying", "err", err)
		}
		sleep(r.open, wait)
	}
}

func encodeHistory(batch []queuedEvent) [][]byte {
	now := time.Now()
	texts := make([][]byte, len(batch))
	for i, e := range batch {
		e.Ago = now.Sub(e.at).Microseconds()
		texts[i], _ = json.Marshal(e.historyText) // of strings and numbers
	}
	return texts
}

// close writes what is left, in releaseGrace at most, and waits for the goroutine.
func (r *historyRecorder) close() {
	if r == nil {
		return
	}
	defer time.AfterFunc(releaseGrace, r.end).Stop()
	defer r.end()
	r.hurry()
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if done != nil {
		<-done
	}
}
