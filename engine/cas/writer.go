package cas

import (
	"sync"
	"sync/atomic"
	"time"
)

// idle is how long a process remembers the document of a resource that it does not use.
const idle = time.Minute

// writer applies the operations of this process on one resource. At most one goroutine at a
// time runs it; see Engine.write.
type writer struct {
	key     Key
	pending []*operation // guarded by writers.mu
	running bool         // guarded by writers.mu
	used    time.Time    // guarded by writers.mu

	doc    Doc       // the document as last seen; the zero Doc is a guess that there is none
	parsed *document // doc.Value, never changed; nil if doc is a guess
	swept  int       // see queue.Record
	seen   atomic.Pointer[sightings]
}

// writers are those of the resources that this process uses or used a short time ago.
type writers struct {
	mu      sync.Mutex
	all     map[Key]*writer
	sweepAt int
}

// add adds an operation to those that wait. It returns the writer if it does not run: the
// caller has to start it.
func (ws *writers) add(key Key, op *operation) *writer {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[key]
	if w == nil {
		ws.sweep()
		w = &writer{key: key}
		ws.all[key] = w
	}
	w.pending = append(w.pending, op)
	if w.running {
		return nil
	}
	w.running = true
	return w
}

// take returns the operations that wait for a writer. If there are none, its run has ended.
func (ws *writers) take(w *writer) []*operation {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ops := w.pending
	w.pending, w.used = nil, time.Now()
	w.running = len(ops) > 0
	return ops
}

// sweep removes the writers of resources that are not used, whenever their number has doubled.
func (ws *writers) sweep() {
	if len(ws.all) < ws.sweepAt {
		return
	}
	for key, w := range ws.all {
		if !w.running && time.Since(w.used) > idle {
			delete(ws.all, key)
		}
	}
	ws.sweepAt = 2*len(ws.all) + 64
}

// seen returns what this process has seen of a resource, or nil.
func (ws *writers) seen(key Key) *sightings {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.all[key]; w != nil {
		return w.seen.Load()
	}
	return nil
}
