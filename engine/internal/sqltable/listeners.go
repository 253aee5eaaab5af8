package sqltable

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// Life is for how long a message is kept in the table.
	Life = 10 * time.Second
	// late is for how long the row of a message may be invisible after one with a higher
	// number was seen: until its transaction is committed.
	late = time.Second
	// gap is the time without a look after which messages may have been deleted unseen.
	gap = Life / 2
	// lookTimeout bounds one look.
	lookTimeout = 2 * time.Second
	// failurePause is the longest pause between looks that fail.
	failurePause = time.Second
)

// A StoredMessage is a row of the table.
type StoredMessage struct {
	Number int64 // grows with the order of insertion
	To     string
	Body   []byte
}

// A Look reads the messages above a number that are to some of the recipients, and possibly others. It
// also returns the highest number in the table, read in the same statement.
type Look func(ctx context.Context, above int64, to []string) (rows []StoredMessage, highest int64, err error)

// Listeners are the open streams of messages of an engine. One goroutine looks for the messages of all, and
// runs while there are any.
type Listeners struct {
	look Look
	pace *pace

	mu   sync.Mutex
	open map[string]map[*openListener]bool // by recipient
	run  *lookout                          // nil while nobody listens
}

// lookout is a run of the goroutine that looks.
type lookout struct {
	cancel context.CancelFunc
	done   chan struct{}
	seen   seen
}

// openListener passes messages on, one at a time.
type openListener struct {
	deliver func([]byte)
	resync  func()
	mu      sync.Mutex
	closed  bool
}

// NewListeners returns Listeners without any.
func NewListeners(look Look) *Listeners {
	return &Listeners{look: look, pace: newPace(), open: make(map[string]map[*openListener]bool)}
}

// Waits implements cas.PacedStore.
func (l *Listeners) Waits(_ cas.Address, holderID string, ahead int) { l.pace.note(holderID, ahead) }

// Listen opens a stream; see cas.DocumentStore.
func (l *Listeners) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Whatever is in the table by now is old, unless others listen already.
	_, highest, err := l.look(ctx, never, nil)
	if err != nil {
		return nil, err
	}
	key := string(Recipient(to))
	s := &openListener{deliver: deliver, resync: resync}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] == nil {
		l.open[key] = make(map[*openListener]bool)
	}
	l.open[key][s] = true
	if l.run == nil {
		ctx, cancel := context.WithCancel(context.Background())
		l.run = &lookout{cancel: cancel, done: make(chan struct{})}
		l.run.seen.begin(highest)
		go l.watch(ctx, l.run)
	}
	return closer(func() error { return l.close(key, s) }), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// close ends a stream, and the goroutine with the last one.
func (l *Listeners) close(key string, s *openListener) error {
	var last *lookout
	l.mu.Lock()
	if l.open[key][s] {
		delete(l.open[key], s)
		if len(l.open[key]) == 0 {
			delete(l.open, key)
		}
		if len(l.open) == 0 {
			last, l.run = l.run, nil
		}
	}
	l.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if last != nil {
		last.cancel()
		<-last.done
	}
	return nil
}

// Split separates messages to listeners of this engine, which Deliver takes once the change
// was made, from those for the table.
func (l *Listeners) Split(messages []cas.Message) (here, elsewhere []cas.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range messages {
		if len(l.open[string(Recipient(m.To))]) > 0 {
			here = append(here, m)
		} else {
			elsewhere = append(elsewhere, m)
		}
	}
	return here, elsewhere
}

// Deliver passes messages to listeners of this engine.
func (l *Listeners) Deliver(messages []cas.Message) {
	for _, m := range messages {
		l.pass(string(Recipient(m.To)), m.Body)
	}
}

func (l *Listeners) pass(key string, body []byte) {
	for _, s := range l.streams(key) {
		s.mu.Lock()
		if !s.closed {
			s.deliver(body)
		}
		s.mu.Unlock()
	}
}

// streams returns the open streams of a recipient, or all.
func (l *Listeners) streams(keys ...string) []*openListener {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*openListener
	add := func(m map[*openListener]bool) {
		for s := range m {
			all = append(all, s)
		}
	}
	for _, key := range keys {
		add(l.open[key])
	}
	if len(keys) == 0 {
		for _, m := range l.open {
			add(m)
		}
	}
	return all
}

func (l *Listeners) recipients() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, len(l.open))
	for key := range l.open {
		keys = append(keys, key)
	}
	return keys
}

// watch looks for messages until ctx ends.
func (l *Listeners) watch(ctx context.Context, run *lookout) {
	defer close(run.done)
	timer := time.NewTimer(l.pace.next())
	defer timer.Stop()
	looked, failed := time.Now(), false
	pause := shortest
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.pace.sooner:
			timer.Reset(l.pace.next())
			continue
		}
		rows, highest, err := l.once(ctx, run)
		if err != nil {
			failed = true
			pause = min(2*pause, failurePause)
			timer.Reset(pause)
			continue
		}
		lost := failed || time.Since(looked) > gap || !run.seen.possible(highest)
		if !run.seen.possible(highest) {
			run.seen.begin(highest)
		}
		for _, r := range rows {
			if run.seen.add(r.Number) {
				l.pass(r.To, r.Body)
			}
		}
		run.seen.advance(highest)
		if lost {
			l.resync()
		}
		looked, failed = time.Now(), false
		l.pace.looked(highest)
		pause = l.pace.next()
		timer.Reset(pause)
	}
}

func (l *Listeners) once(ctx context.Context, run *lookout) ([]StoredMessage, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return l.look(ctx, run.seen.above, l.recipients())
}

func (l *Listeners) resync() {
	for _, s := range l.streams() {
		s.mu.Lock()
		if !s.closed {
			s.resync()
		}
		s.mu.Unlock()
	}
}
