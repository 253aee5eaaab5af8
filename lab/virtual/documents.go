package virtual

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// documents are the data of a node in the worlds of documents.
type documents interface {
	cas.DocumentStore
	Wipe()
}

// newDocuments returns a node that stores documents; timed reports whether clients can read
// its clock. The engine of the node has no link: only the simulation uses it.
func newDocuments(rate float64, timed bool) *node {
	n := newNode(rate)
	n.timed, n.began = timed, time.Now()
	memory := castest.NewMemory()
	n.documents = castest.Witnessing{Memory: memory, Clock: n.clock}
	if timed {
		n.documents = &castest.Timed{Memory: memory, Clock: n.clock}
	}
	if timed {
		n.e = cas.New(n.documents, 0)
	} else { // the simulation knows how old documents are
		n.e = cas.New(castest.Aged{Memory: memory}, 0)
	}
	return n
}

// clock returns the time on the store's clock.
func (n *node) clock() time.Time {
	return n.began.Add(time.Duration(float64(time.Since(n.began)) * n.rate))
}

// documentLink implements cas.DocumentStore over a link.
type documentLink struct{ l *link }

// timedLink implements cas.TimedStore over a link.
type timedLink struct{ documentLink }

// witnessLink implements cas.WitnessStore over a link.
type witnessLink struct{ documentLink }

// overDocuments returns an engine on the documents at the other end of the link.
func (l *link) overDocuments() engine.Engine {
	if l.n.timed {
		return cas.New(timedLink{documentLink{l}}, readTimeout)
	}
	return cas.New(witnessLink{documentLink{l}}, readTimeout)
}

// Read implements cas.DocumentStore.
func (d documentLink) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	return request(ctx, d.l, func(ctx context.Context, _ engine.Engine) ([]cas.Doc, error) { return d.l.n.documents.Read(ctx, reads) })
}

// Swap implements cas.DocumentStore.
func (d documentLink) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	return request(ctx, d.l, func(ctx context.Context, _ engine.Engine) ([]cas.Outcome, error) {
		return d.l.n.documents.Swap(ctx, changes)
	})
}

// Now implements cas.TimedStore.
func (t timedLink) Now(ctx context.Context) (time.Time, error) {
	return request(ctx, t.l, func(context.Context, engine.Engine) (time.Time, error) { return t.l.n.clock(), nil })
}

// Witness implements cas.WitnessStore.
func (w witnessLink) Witness(ctx context.Context, prefix string, d time.Duration) (name string, lasts time.Duration, err error) {
	name, err = request(ctx, w.l, func(ctx context.Context, _ engine.Engine) (string, error) {
		name, _, err := w.l.n.documents.(cas.WitnessStore).Witness(ctx, prefix, d)
		return name, err
	})
	return name, d, err
}

// Witnesses implements cas.WitnessStore.
func (w witnessLink) Witnesses(ctx context.Context, prefix string, names []string) ([]cas.WitnessState, error) {
	return request(ctx, w.l, func(ctx context.Context, _ engine.Engine) ([]cas.WitnessState, error) {
		return w.l.n.documents.(cas.WitnessStore).Witnesses(ctx, prefix, names)
	})
}

// Keys implements cas.DocumentStore. The lab does not list through links.
func (d documentLink) Keys(context.Context, cas.Space, string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) { yield(cas.Key{}, unavailable("no list")) }
}

// Listen implements cas.DocumentStore.
func (d documentLink) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	s := &stream{l: d.l, resync: resync}
	s.open = func(ctx context.Context, _ engine.Engine) (io.Closer, error) {
		return d.l.n.documents.Listen(ctx, to, func(body []byte) { s.receive(func() { deliver(body) }) }, resync)
	}
	return s.listen(ctx)
}
