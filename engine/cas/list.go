package cas

import (
	"context"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// listedAtOnce is how many documents List reads in one call.
const listedAtOnce = 64

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	views, err := e.view(ctx, []Key{{Space: Resources, Prefix: res.Prefix, Name: res.Name}})
	if err != nil {
		return engine.Snapshot{}, err
	}
	return e.snapshot(ctx, views[0])
}

// Peek implements engine.Engine. It reads the whole document, which is bounded.
func (e *Engine) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	views, err := e.view(ctx, []Key{{Space: Resources, Prefix: res.Prefix, Name: res.Name}})
	if err != nil {
		return engine.Brief{}, err
	}
	v := views[0]
	return translate.Brief(queue.Restore(e.params, v.state), res, v.now), nil
}

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return e.each(ctx, prefix, pattern, func(s engine.Snapshot) bool { return len(s.Holders)+len(s.Waiters) > 0 })
}

// ListMarks implements engine.MarkLister.
func (e *Engine) ListMarks(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return e.each(ctx, prefix, pattern, func(s engine.Snapshot) bool { return s.Marked > 0 })
}

// each yields the resources that are wanted.
func (e *Engine) each(ctx context.Context, prefix, pattern string, wanted func(engine.Snapshot) bool) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		if err := ended(ctx); err != nil {
			yield(engine.Snapshot{}, err)
			return
		}
		var keys []Key
		// flush reports whether to go on.
		flush := func() bool {
			views, err := e.view(ctx, keys)
			keys = keys[:0]
			if err != nil {
				yield(engine.Snapshot{}, err)
				return false
			}
			for _, v := range views {
				s, err := e.snapshot(ctx, v)
				if err != nil {
					yield(engine.Snapshot{}, err)
					return false
				}
				s.Dead = nil
				if wanted(s) && !yield(s, nil) {
					return false
				}
			}
			return true
		}
		for key, err := range e.store.Keys(ctx, Resources, prefix) {
			if err != nil {
				yield(engine.Snapshot{}, failure(err))
				return
			}
			if !engine.Match(pattern, key.Name) {
				continue
			}
			if keys = append(keys, key); len(keys) == listedAtOnce && !flush() {
				return
			}
		}
		if len(keys) > 0 {
			flush()
		}
	}
}

// view is a document as an observer sees it.
type view struct {
	*document
	writer *writer // of this reading
	now    queue.Time
}

// view reads documents. For the time of leases on a store without a clock it uses what this
// process has seen of them before.
func (e *Engine) view(ctx context.Context, keys []Key) ([]view, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	reads := make([]Read, len(keys))
	for i, k := range keys {
		reads[i] = Read{Key: k}
	}
	// The time is from before the documents are read: a lease that is over by then cannot have been renewed since.
	at, err := e.instant(ctx)
	if err != nil {
		return nil, err
	}
	docs, err := e.readAll(ctx, reads)
	if err != nil {
		return nil, err
	}
	views := make([]view, len(docs))
	for i, doc := range docs {
		parsed, err := e.parse(keys[i], doc)
		if err != nil {
			return nil, err
		}
		w := &writer{key: keys[i]}
		if !e.timed {
			known := e.writers.watch(keys[i])
			w.seen.Store(e.believe(ctx, w.key.Prefix, parsed, known.looked.Load().with(parsed, doc.Age, known.seen.Load())))
			known.looked.Store(w.seen.Load())
		}
		d := *parsed
		if d.forgettable(at.now) {
			d = document{}
		}
		d.state.Holders, d.state.Waiters = slices.Clone(d.state.Holders), slices.Clone(d.state.Waiters)
		e.time(w, &d.state, d.stamps, at)
		views[i] = view{document: &d, writer: w, now: at.now}
	}
	return views, nil
}

// snapshot returns what an operator sees of a document.
func (e *Engine) snapshot(ctx context.Context, v view) (engine.Snapshot, error) {
	if err := ended(ctx); err != nil {
		return engine.Snapshot{}, err
	}
	line := v.state.Waiters
	for i := range line {
		line[i].Seen = e.polled(v.writer, line[i], v.now)
	}
	if err := e.verify(ctx, v.writer, line, make([]bool, len(line)), v.now-e.params.WaiterLife, v.now); err != nil {
		return engine.Snapshot{}, err
	}
	res := engine.Resource{Prefix: v.writer.key.Prefix, Name: v.writer.key.Name}
	return translate.Snapshot(queue.Restore(e.params, v.state), res, v.now, v.client), nil
}
