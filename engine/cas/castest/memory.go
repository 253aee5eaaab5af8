package castest

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// A Memory is a cas.DocumentStore in this process, for tests of the engine itself. It has
// no clock; see Timed.
type Memory struct {
	mu        sync.Mutex
	docs      map[cas.Key]kept
	rev       uint64
	listeners map[cas.Address]map[*receiver]bool
	witnesses map[string]time.Time // when they vanish
}

type kept struct {
	cas.Doc
	made, until time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{docs: make(map[cas.Key]kept), listeners: make(map[cas.Address]map[*receiver]bool), witnesses: make(map[string]time.Time)}
}

// Wipe deletes all documents.
func (m *Memory) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.docs)
	clear(m.witnesses)
}

// Aged is a Memory that knows how old its documents are.
type Aged struct{ *Memory }

// Read implements cas.DocumentStore.
func (a Aged) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	docs, err := a.Memory.Read(ctx, reads)
	for i := range docs {
		docs[i].Age = a.age(reads[i].Key, docs[i].Rev)
	}
	return docs, err
}

// Swap implements cas.DocumentStore.
func (a Aged) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outs, err := a.Memory.Swap(ctx, changes)
	for i := range outs {
		outs[i].Doc.Age = a.age(changes[i].Key, outs[i].Doc.Rev)
	}
	return outs, err
}

// age returns the age of a revision, or 0 if it is not the present one.
func (a Aged) age(k cas.Key, rev uint64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.docs[k]; rev != 0 && d.Rev == rev {
		return time.Since(d.made)
	}
	return 0
}

// Witnessing is a Memory that makes witnesses.
type Witnessing struct {
	*Memory
	// Clock shows the time by which they last.
	Clock func() time.Time
}

// Witness implements cas.WitnessStore.
func (w Witnessing) Witness(ctx context.Context, _ string, d time.Duration) (name string, lasts time.Duration, err error) {
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name = rand.Text()
	w.witnesses[name] = w.Clock().Add(d)
	return name, d, nil
}

// Witnesses implements cas.WitnessStore.
func (w Witnessing) Witnesses(ctx context.Context, _ string, names []string) ([]cas.WitnessState, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	states := make([]cas.WitnessState, len(names))
	for i, name := range names {
		switch until, ours := w.witnesses[name]; {
		case !ours:
			states[i] = cas.WitnessForeign
		case !w.Clock().Before(until):
			states[i] = cas.WitnessVanished
		}
	}
	return states, nil
}

// Timed is a Memory with a clock.
type Timed struct {
	*Memory
	Clock func() time.Time
}

// Read implements cas.DocumentStore.
func (m *Memory) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	docs := make([]cas.Doc, len(reads))
	for i, r := range reads {
		docs[i] = m.get(r.Key)
		if docs[i].Rev == r.Rev && r.Rev != 0 {
			docs[i].Value, docs[i].Unchanged = nil, true
		}
	}
	return docs, nil
}

// get returns a document, unless its time is over.
func (m *Memory) get(k cas.Key) cas.Doc {
	d := m.docs[k]
	if !d.until.After(time.Now()) {
		delete(m.docs, k)
		return cas.Doc{}
	}
	d.Value = bytes.Clone(d.Value)
	return d.Doc
}

// Swap implements cas.DocumentStore.
func (m *Memory) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	outs := make([]cas.Outcome, len(changes))
	var messages []cas.Message
	m.mu.Lock()
	for i, c := range changes {
		if outs[i].Doc = m.get(c.Key); outs[i].Doc.Rev != c.Rev {
			continue
		}
		// Another store under the same keys, as after a loss of all data, has other revisions.
		m.rev = max(m.rev+1, uint64(time.Now().UnixNano()))
		m.docs[c.Key] = kept{Doc: cas.Doc{Rev: m.rev, Value: bytes.Clone(c.Value)}, made: time.Now(), until: time.Now().Add(c.Keep)}
		outs[i] = cas.Outcome{Swapped: true, Doc: cas.Doc{Rev: m.rev}}
		messages = append(messages, c.Messages...)
	}
	m.mu.Unlock()
	for _, msg := range messages {
		m.send(msg)
	}
	return outs, nil
}

// Keys implements cas.DocumentStore.
func (m *Memory) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(cas.Key{}, err)
			return
		}
		var keys []cas.Key
		m.mu.Lock()
		for k := range m.docs {
			if k.Space == space && k.Prefix == prefix {
				keys = append(keys, k)
			}
		}
		m.mu.Unlock()
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// receiver passes messages on, one at a time.
type receiver struct {
	mu      sync.Mutex
	deliver func([]byte)
	closed  bool
	close   func()
}

// Listen implements cas.DocumentStore. Every message arrives.
func (m *Memory) Listen(ctx context.Context, to cas.Address, deliver func([]byte), _ func()) (io.Closer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &receiver{deliver: deliver}
	s.close = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.listeners[to], s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[to] == nil {
		m.listeners[to] = make(map[*receiver]bool)
	}
	m.listeners[to][s] = true
	return s, nil
}

// Close implements io.Closer.
func (s *receiver) Close() error {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (m *Memory) send(msg cas.Message) {
	m.mu.Lock()
	var all []*receiver
	for s := range m.listeners[msg.To] {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		s.mu.Lock()
		if !s.closed {
			s.deliver(msg.Body)
		}
		s.mu.Unlock()
	}
}

// Now implements cas.TimedStore.
func (t *Timed) Now(ctx context.Context) (time.Time, error) {
	return t.Clock(), ctx.Err()
}

// Read implements cas.DocumentStore.
func (t *Timed) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	docs, err := t.Memory.Read(ctx, reads)
	for i := range docs {
		docs[i].At = t.Clock()
	}
	return docs, err
}

// Swap implements cas.DocumentStore.
func (t *Timed) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outs, err := t.Memory.Swap(ctx, changes)
	for i := range outs {
		outs[i].Doc.At = t.Clock()
	}
	return outs, err
}
