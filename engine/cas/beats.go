package cas

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// A beat is the small document of a client that shows that its waiters poll. It contains
// the time, which on a store without a clock is only a number that changes.
const (
	// beatInterval is less than the time between two polls of a waiter, so that each of them
	// writes it: one poll without an answer is no death.
	beatInterval = engine.PollInterval * 7 / 10
	// beatKeep is how long the store keeps it.
	beatKeep = time.Minute
)

// beats are the beats that this process writes, and those of others as it last read them.
type beats struct {
	mu      sync.Mutex
	own     map[Address]*beat
	others  map[Address]heard
	sweepAt int
}

type beat struct {
	at      time.Time // the start of the latest write
	rev     uint64
	writing bool
}

type heard struct {
	value string
	at    time.Time // since when this value is known to be there
}

// beat writes the beat of a client if it is due. The first poll of a client needs none.
func (e *Engine) beat(ctx context.Context, client Address) {
	latest, rev, due := e.beats.due(client)
	if !due {
		return
	}
	e.dismiss(client, latest)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.beats.wrote(client, e.writeBeat(client, rev, nil))
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// send sends messages with a beat of a client, and reports whether it did. It does not while a beat is written.
func (e *Engine) send(client Address, messages []Message) bool {
	rev, ok := e.beats.begin(client)
	if !ok {
		return false
	}
	rev = e.writeBeat(client, rev, messages)
	e.beats.wrote(client, rev)
	return rev != 0
}

// writeBeat returns the revision of the beat that it has written, or 0.
func (e *Engine) writeBeat(client Address, rev uint64, messages []Message) uint64 {
	at, err := e.instant(context.Background())
	if err != nil {
		return 0
	}
	value := strconv.AppendInt(nil, at.now, 10)
	for range 2 { // the second time with the revision that is there
		out, _, err := e.swaps.do(Change{Key: client.key(), Rev: rev, Value: value, Keep: beatKeep, Relaxed: true, Messages: messages}, false)
		if err != nil {
			return 0
		}
		if rev = out.Doc.Rev; out.Swapped {
			return rev
		}
	}
	return 0
}

func (a Address) key() Key { return Key{Space: Clients, Prefix: a.Prefix, Name: a.Client} }

// due reports whether the beat of a client is to be written now, by this caller alone, and when
// the latest was.
func (b *beats) due(client Address) (latest time.Time, rev uint64, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[client]
	if own == nil {
		b.sweep()
		b.own[client] = &beat{at: time.Now()}
		return time.Time{}, 0, false
	}
	if own.writing || time.Since(own.at) < beatInterval {
		return time.Time{}, 0, false
	}
	latest, own.at, own.writing = own.at, time.Now(), true
	return latest, own.rev, true
}

// begin notes that the beat of a client is written whether it is due or not, by this caller alone, and returns its
// revision, as far as it is known.
func (b *beats) begin(client Address) (rev uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[client]
	if own == nil {
		b.sweep()
		own = &beat{at: time.Now()}
		b.own[client] = own
	}
	if own.writing {
		return 0, false
	}
	own.writing = true
	return own.rev, true
}

// wrote takes the result of a write. If it failed, the next poll tries again.
func (b *beats) wrote(client Address, rev uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[client]
	if own == nil {
		return
	}
	own.writing = false
	if own.rev = rev; rev == 0 {
		own.at = time.Time{}
	}
}

// sweep removes what is old, whenever the number of clients has doubled.
func (b *beats) sweep() {
	if len(b.own)+len(b.others) < b.sweepAt {
		return
	}
	for a, own := range b.own {
		if time.Since(own.at) > beatKeep {
			delete(b.own, a)
		}
	}
	for a, h := range b.others {
		if time.Since(h.at) > beatKeep {
			delete(b.others, a)
		}
	}
	b.sweepAt = 2*(len(b.own)+len(b.others)) + 64
}

// hear takes the beat of a client as it is in the store.
func (b *beats) hear(client Address, value string, age time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if value == "" || b.others[client].value == value {
		return
	}
	b.sweep()
	b.others[client] = heard{value: value, at: time.Now().Add(-age)}
}

// seen returns when the waiters of a client were last known to poll, or 0: by the value of its
// beat, or on a store without a clock by when the value arrived, as an instant of now.
func (b *beats) seen(client Address, timed bool, now queue.Time) queue.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.others[client]
	if !ok {
		return 0
	}
	if !timed {
		return now - time.Since(h.at).Microseconds()
	}
	at, err := strconv.ParseInt(h.value, 10, 64)
	if err != nil {
		return 0
	}
	return at
}
