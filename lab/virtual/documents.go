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

// documents are the data of a store that keeps documents.
type documents interface {
	cas.DocumentStore
	Wipe()
}

// newDocuments makes a store of documents, with a clock that clients can read or without. The
// engine of the node, which looks at it from outside, is not in any process.
func newDocuments(rate float64, timed bool) *node {
	n := newNode(rate)
	n.timed, n.began = timed, time.Now()
	memory := castest.NewMemory()
	n.documents = memory
	if timed {
		n.documents = &castest.Timed{Memory: memory, Clock: n.clock}
	}
	if timed {
		n.e = cas.New(n.documents, 0)
	} else { // from outside it is known how old documents are
		n.e = cas.New(castest.Aged{Memory: memory}, 0)
	}
	return n
}

// clock is what the store's clock shows.
func (n *node) clock() time.Time {
	return n.began.Add(time.Duration(float64(time.Since(n.began)) * n.rate))
}

// documentLink is a link to a store of documents.
type documentLink struct{ l *link }

// timedLink is one to a store with a clock.
type timedLink struct{ documentLink }

// overDocuments returns the engine of a process over its link.
func (l *link) overDocuments() engine.Engine {
	if l.n.timed {
		return cas.New(timedLink{documentLink{l}}, readTimeout)
	}
	return cas.New(documentLink{l}, readTimeout)
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

// Keys implements cas.DocumentStore. Nothing in the lab lists through a link.
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
